import inspect
import re

import pytest

from zstci import errors
from zstci.errors import InvalidConfig, UnknownStrategy, ZstciError

ALL = [getattr(errors, name) for name in errors.__all__]


def test_every_error_is_public_and_of_one_family():
    defined = {name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)}

    assert defined == set(errors.__all__)
    assert all(issubclass(error, ZstciError) for error in ALL)


def test_every_error_has_a_code_of_its_own():
    codes = [error.code for error in ALL]

    assert len(set(codes)) == len(codes)
    assert all("code" in vars(error) for error in ALL)
    assert all(re.fullmatch("[a-z_]+", code) for code in codes)


def test_the_tree_in_the_docstring_is_the_tree_in_the_code():
    drawn = re.findall(r"^([│ ├└─]*)([A-Z]\w+)(?:  |$)", errors.__doc__ or "", flags=re.MULTILINE)
    parents: list[str] = []
    for branch, name in drawn:
        depth = len(branch) // 4
        if depth:
            assert getattr(errors, name).__bases__ == (getattr(errors, parents[depth - 1]),)
        parents[depth:] = [name]

    assert sorted(name for _, name in drawn) == sorted(errors.__all__)


def test_an_unknown_strategy_says_what_to_type_instead():
    error = UnknownStrategy("regularizer", "lfw", {"mas": 1, "ewc": 2, "lwf": 3})

    assert str(error) == "unknown regularizer 'lfw'; choose one of: ewc, lwf, mas"
    assert (error.kind, error.name, error.known) == ("regularizer", "lfw", ["ewc", "lwf", "mas"])
    with pytest.raises(InvalidConfig):
        raise error
