"""Whoever installs the packages gets their types."""

from importlib.resources import files

import pytest


@pytest.mark.parametrize("package", ["zstci", "service"])
def test_a_package_says_that_it_is_typed(package: str) -> None:
    assert files(package).joinpath("py.typed").is_file()
