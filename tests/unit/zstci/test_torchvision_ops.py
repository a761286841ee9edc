"""Each test runs in a fresh process: an operator, once declared, stays declared."""

import subprocess
import sys

import pytest

CURE = "from zstci._torchvision_ops import make_torchvision_importable as cure; "
COMPILED_OPS_LOAD = "import zstci._torchvision_ops as ops; raise SystemExit(not ops._load_compiled_operators())"
FORWARD = """
import torch, torchvision
with torch.inference_mode():
    print(tuple(torchvision.models.resnet18().eval()(torch.zeros(1, 3, 64, 64)).shape))
"""


def run(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def compiled_ops_load() -> bool:
    return run(COMPILED_OPS_LOAD).returncode == 0


def test_after_the_cure_torchvision_imports_and_a_resnet_runs():
    process = run(CURE + "cure(); cure()" + FORWARD)

    assert process.returncode == 0, process.stderr
    assert process.stdout.strip() == "(1, 1000)"


def test_after_the_cure_timm_imports():
    process = run(CURE + "cure(); import timm; print(timm.create_model('tf_efficientnet_lite0').num_features)")

    assert process.returncode == 0, process.stderr
    assert process.stdout.strip() == "1280"


def test_without_the_cure_the_import_fails_where_the_compiled_operators_do_not_load(compiled_ops_load):
    if compiled_ops_load:
        pytest.skip("torchvision's compiled operators load on this machine, so there is nothing to cure")
    process = run("import torchvision")

    assert process.returncode != 0
    assert "operator torchvision::nms does not exist" in process.stderr


def test_compiled_operators_are_loaded_rather_than_declared(compiled_ops_load):
    if not compiled_ops_load:
        pytest.skip("torchvision's compiled operators do not load on this machine")
    process = run(CURE + "cure(); import torchvision; print(torchvision.extension._has_ops())")

    assert process.returncode == 0, process.stderr
    assert process.stdout.strip() == "True"


def test_operators_that_exist_are_left_alone():
    # A working torchvision defines the schemas and gives them kernels; the kernel must still answer afterwards.
    process = run(
        CURE
        + """
import torch
import zstci._torchvision_ops as ops
library = torch.library.Library("torchvision", "DEF")
for name in ops.OPERATORS:
    library.define(name + ops.SCHEMA)
    library.impl(name, lambda dets, scores, iou_threshold: scores + 1, "CPU")
cure()
assert ops._declarations is None
print(torch.ops.torchvision.nms(torch.zeros(1, 4), torch.zeros(1), 0.5).item())
"""
    )

    assert process.returncode == 0, process.stderr
    assert process.stdout.strip() == "1.0"


def test_only_the_operator_that_is_missing_is_declared(compiled_ops_load):
    if compiled_ops_load:
        pytest.skip("torchvision's compiled operators load on this machine, so nothing is declared")
    process = run(
        CURE
        + """
import torch
import zstci._torchvision_ops as ops
library = torch.library.Library("torchvision", "DEF")
library.define("nms" + ops.SCHEMA)
cure()
print(ops._missing_operators())
"""
    )

    assert process.returncode == 0, process.stderr
    assert process.stdout.strip() == "[]"
