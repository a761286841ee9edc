import importlib
import pkgutil

import pytest

import zstci

MODULES = ["zstci", *(module.name for module in pkgutil.walk_packages(zstci.__path__, "zstci."))]
PUBLIC = [name for name in MODULES if not any(part.startswith("_") for part in name.split("."))]


def as_ruff_sorts(name: str) -> tuple[int, str]:
    """CONSTANTS, then Classes, then functions; by name within each."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_names_of_a_module_are_sorted_and_exist(name):
    module = importlib.import_module(name)

    assert list(module.__all__) == sorted(set(module.__all__), key=as_ruff_sorts)
    assert [public for public in module.__all__ if not hasattr(module, public)] == []


def test_the_front_door_offers_what_an_update_needs():
    assert {"learn", "preset", "Config", "Snapshot", "TaskData", "ImageFiles", "ImageArrays", "Vectors"} <= set(
        zstci.__all__
    )
