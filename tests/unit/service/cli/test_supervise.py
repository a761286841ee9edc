"""Whether a child stands still."""

import os

from service.cli.supervise import _Life


def touch(file, second):
    file.touch()
    os.utime(file, (second, second))


def test_who_goes_on_touching_its_file_lives(tmp_path):
    life = _Life(tmp_path / "life", 10.0)
    for second in range(100, 200):
        touch(tmp_path / "life", second)
        assert not life.has_stopped(1e9 + second)


def test_who_has_stopped_touching_its_file_stands_still(tmp_path):
    life = _Life(tmp_path / "life", 10.0)
    for second in (100, 101):
        touch(tmp_path / "life", second)
        assert not life.has_stopped(1e9 + second)

    assert not life.has_stopped(1e9 + 111)
    assert life.has_stopped(1e9 + 112)


def test_who_has_never_begun_is_not_missed(tmp_path):
    touch(tmp_path / "life", 100)  # by the one before it
    life = _Life(tmp_path / "life", 10.0)

    assert not life.has_stopped(1e9 + 1000)
