from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from zstci.tensors import flat, nested, under, write

kinds = st.text("abc", min_size=1, max_size=3)
names = st.text("xyz.", min_size=1, max_size=5)
groups = st.dictionaries(kinds, st.dictionaries(names, st.integers().map(lambda n: torch.tensor(n % 7)), min_size=1))


@settings(deadline=None, max_examples=50)
@given(groups)
def test_nested_is_the_inverse_of_flat(groups: dict[str, dict[str, torch.Tensor]]) -> None:
    found = nested(flat(groups, "prefix"), "prefix")

    assert found.keys() == groups.keys()
    assert all(found[kind] == groups[kind] for kind in groups)


def test_a_prefix_ends_at_its_dot() -> None:
    tensors = {"net.a.b": torch.ones(1), "network.a": torch.ones(1), "net": torch.ones(1)}

    assert list(under(tensors, "net")) == ["a.b"]


def test_what_is_written_is_read_back_bit_for_bit_whatever_its_layout(tmp_path: Path) -> None:
    shared = torch.randn(2, 3, 4, 4)
    tensors = {
        "whole": shared,
        "part": shared[0],
        "turned": shared.permute(3, 2, 1, 0),
        "channels_last": shared.to(memory_format=torch.channels_last),
        "number": torch.tensor(3),
        "nothing": torch.zeros(0, 5),
    }

    write(tmp_path / "file.safetensors", tensors, {"key": "value"})

    read = load_file(tmp_path / "file.safetensors")
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[name], value) for name, value in tensors.items())
    assert [path.name for path in tmp_path.iterdir()] == ["file.safetensors"]


def test_a_write_that_fails_leaves_the_file_of_before(tmp_path: Path) -> None:
    path = tmp_path / "file.safetensors"
    write(path, {"a": torch.ones(2)})
    (tmp_path / "file.safetensors.partial").mkdir()  # nothing can be written there

    with pytest.raises(Exception, match="directory"):
        write(path, {"a": torch.zeros(2)})

    assert torch.equal(load_file(path)["a"], torch.ones(2))
