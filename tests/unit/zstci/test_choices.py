"""The names are kept apart from the code that they stand for, and must not drift from it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from zstci import Config, choices, classifiers, nets, translators
from zstci.choices import check_choices, check_net
from zstci.errors import InvalidConfig, UnknownStrategy


def test_every_name_has_its_code_and_every_code_its_name():
    assert set(choices.TRANSLATORS) == set(translators.TRANSLATORS)
    assert set(choices.CLASSIFIERS) == set(classifiers.CLASSIFIERS)
    assert set(choices.BACKBONES) == set(nets.BACKBONES)


@pytest.mark.parametrize("setting", ["regularizer", "translator", "classifier"])
def test_an_unknown_name_is_refused_with_those_that_are_known(setting):
    with pytest.raises(UnknownStrategy, match=rf"{setting}.*nonsense"):
        check_choices(Config().override(**{setting: "nonsense"}))


def test_a_candidate_of_auto_is_no_auto():
    config = Config().override(**{"translator": "auto", "translation.candidates": ("linear", "auto")})
    with pytest.raises(UnknownStrategy, match="candidate of auto"):
        check_choices(config)


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:1"])
def test_devices_of_another_machine_pass(device):
    check_choices(Config().override(device=device))


@pytest.mark.parametrize("device", ["gpu", "cuda:", "mps", ""])
def test_devices_that_no_machine_has_do_not(device):
    with pytest.raises(InvalidConfig, match="unknown device"):
        check_choices(Config().override(device=device))


def test_a_net_is_checked_by_name():
    check_net(Config().override(**{"net.backbone": "resnet18"}).net)
    for wrong in ({"net.backbone": "resnet19"}, {"net.backbone": "resnet32", "net.weights": "pretrained"}):
        with pytest.raises(InvalidConfig):
            check_net(Config().override(**wrong).net)


def test_ordinary_choices_are_checked_without_torch():
    program = (
        "import sys; from zstci import Config; from zstci.choices import check_choices, check_net; "
        "check_choices(Config()); check_net(Config().net); print('torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
