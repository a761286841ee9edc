"""The net in 8 bits, made by the real tools of ONNX Runtime from a real version."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from service.serving import bundle, quantize
from service.serving.decode import decode_all
from service.serving.engine import OnnxEngine
from service.serving.live import LiveModel
from tests.pictures import picture
from tests.unit.service.serving.learnt import NAMES, learnt, live_of


@pytest.fixture(scope="module")
def pictures():
    """Those of sixty that are by far nearer to one class than to the next."""
    live = live_of(learnt("whitened"), 1)
    contents = [picture(digit, number) for digit in range(3) for number in range(20)]
    pixels = decode_all(contents, live.input, 1000)
    distances, _ = live.index.search(live.embed(pixels), 2)
    return pixels[np.argsort(distances[:, 0] / distances[:, 1])[:20]]


@pytest.fixture(scope="module")
def noise():
    """Near to no class, so that a small difference makes another one the nearest."""
    size = learnt("whitened").config.net.input.size
    return np.random.default_rng(0).integers(0, 256, (200, 3, size, size), dtype=np.uint8)


def test_eight_bits_are_kept_where_they_name_the_same_classes(tmp_path, bundles, pictures):
    written = bundle.write(learnt("whitened"), tmp_path / "v1", NAMES, eight_bits_for=pictures)
    full = OnnxEngine(bundles("whitened") / bundle.ENGINE).embed(pictures)
    live = LiveModel.load(tmp_path / "v1", 1, written.sha256)
    found = live.engine.embed(pictures)

    assert written.engine == bundle.verify(tmp_path / "v1").engine == "onnx-int8"
    assert 0 < np.abs(found - full).max() < 0.5, "another net than the one in 32 bits, and not a wrong one"
    same = live.index.search(found, 1)[1] == live.index.search(full, 1)[1]
    assert written.agreement == same[1::2].mean(), "of the pictures that did not calibrate it"


def test_eight_bits_that_agree_too_seldom_are_refused_and_said(tmp_path, bundles, noise):
    written = bundle.write(learnt("whitened"), tmp_path / "v1", NAMES, eight_bits_for=noise)
    full = OnnxEngine(bundles("whitened") / bundle.ENGINE).embed(noise)

    assert written.engine == "onnx"
    assert written.agreement is not None
    assert written.agreement < 0.99
    assert np.array_equal(OnnxEngine(tmp_path / "v1" / bundle.ENGINE).embed(noise), full), "still the one in 32 bits"


def test_the_least_agreement_is_ninety_nine_percent():
    assert quantize.LEAST_AGREEMENT == 0.99


def test_a_version_with_the_same_net_takes_its_engine_over(tmp_path, bundles):
    parent: Path = shutil.copytree(bundles("whitened"), tmp_path / "parent")
    smaller = learnt("whitened").without({"digit-1"})
    bundle.write(smaller, tmp_path / "v2", NAMES, engine_of=parent)

    assert (tmp_path / "v2" / bundle.ENGINE).read_bytes() == (parent / bundle.ENGINE).read_bytes()
    assert LiveModel.load(tmp_path / "v2", 2).ids == ("digit-0", "digit-2")
