"""Which version a process answers from, and what happens when that one is damaged or the database is away."""

import json
import os
import sys
import threading
import time
import weakref

import pytest

from service.errors import CorruptBundle, DatabaseUnreachable, StorageUnreachable, UnknownVersion, VersionChanged
from service.serving.bundle import ENGINE, INDEX, VERSION, _digest, _facts, verify
from service.serving.live import ModelSlot
from service.storage.tables import VersionRow
from service.usecases import follow
from service.usecases.follow import Follower


@pytest.fixture
def slot():
    return ModelSlot()


@pytest.fixture
def follower(bench, slot):
    bench.learn([0, 1])
    bench.learn([2])
    return Follower(bench.parts.versions, bench.parts.artifacts, slot)


def damage(bench, number):
    path = bench.parts.artifacts.local(bench.parts.versions.get(number).bundle) / INDEX
    path.write_bytes(path.read_bytes()[:-1])


def break_engine(bench, number):
    """Of a version whose checksums are all right."""
    folder = bench.parts.artifacts.local(bench.parts.versions.get(number).bundle)
    (folder / ENGINE).write_bytes(b"no engine")
    content = json.loads((folder / VERSION).read_text())
    content["files"][ENGINE] = _facts(folder / ENGINE)
    content["sha256"] = _digest(content)
    (folder / VERSION).write_text(json.dumps(content))
    with bench.parts.database.write() as session:
        session.get_one(VersionRow, number).sha256 = content["sha256"]


def test_a_process_follows_the_active_version_and_keeps_the_one_before(bench, follower, slot):
    assert follower.refresh()
    assert not follower.refresh(), "nothing has changed"
    assert slot.version == 2
    follower.activate(1, expected=2)
    assert slot.loaded == (1, 2)
    assert bench.parts.versions.active().version == 1


def test_the_oldest_version_is_let_go_before_the_next_one_is_read_so_that_there_are_never_three(bench, follower, slot):
    follower.activate(1)
    follower.activate(2)
    oldest = weakref.ref(slot.get(1))
    bench.learn([3])
    break_engine(bench, 3)  # its reading ends early, so what was let go before is seen

    assert not follower.refresh()
    assert slot.loaded == (2,)
    assert oldest() is None


def test_for_a_damaged_version_no_other_one_is_let_go(bench, follower, slot):
    follower.activate(1)
    follower.activate(2)
    bench.learn([3])
    damage(bench, 3)

    assert not follower.refresh()
    assert slot.loaded == (2, 1)


def test_a_process_that_could_not_load_a_version_is_well_again_when_another_one_goes_back(bench, follower, slot):
    follower.activate(1)
    slot_of_other = ModelSlot()
    other = Follower(bench.parts.versions, bench.parts.artifacts, slot_of_other)
    other.refresh()
    other.activate(2)  # it has it in memory when its files are damaged
    damage(bench, 2)

    assert not follower.refresh()
    assert follower.problem is not None
    other.activate(1)
    assert not follower.refresh()
    assert (slot.version, follower.problem) == (1, None)


def test_a_new_version_is_noticed_by_a_thread_of_its_own(bench, follower, slot):
    follower.start(0.05)
    try:
        for number in (1, 2):
            bench.parts.versions.activate(number)
            deadline = time.monotonic() + 30
            while slot.version != number:
                assert time.monotonic() < deadline
                time.sleep(0.02)
    finally:
        follower.close()
    bench.parts.versions.activate(1)
    time.sleep(0.2)
    assert slot.version == 2, "nobody follows any more"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads have no priority of their own")
def test_the_thread_that_loads_versions_steps_back_and_the_others_do_not(follower):
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    follower.start(poll_seconds=0.05)
    try:
        [thread] = [thread for thread in threading.enumerate() if thread.name == "follow"]
        assert thread.native_id is not None
        deadline = time.monotonic() + 10
        while os.getpriority(os.PRIO_PROCESS, thread.native_id) == before and time.monotonic() < deadline:
            time.sleep(0.01)
        assert os.getpriority(os.PRIO_PROCESS, thread.native_id) == max(before, 5)
    finally:
        follower.close()

    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


def test_who_loads_a_version_lets_queries_in_more_often_and_only_meanwhile(follower, monkeypatch):
    intervals = []

    def read(*arguments, **options):
        intervals.append(sys.getswitchinterval())
        return verify(*arguments, **options)

    monkeypatch.setattr("service.usecases.follow.verify", read)
    usual = sys.getswitchinterval()
    follower.refresh()

    assert intervals == [pytest.approx(0.0005)]
    assert sys.getswitchinterval() == usual


def test_new_names_are_shown_without_a_new_version(bench, follower, slot):
    follower.refresh()
    bench.parts.versions.rename(slot.current.ids[0], "nought")

    assert not follower.refresh()
    assert slot.name_of(slot.current.ids[0]) == "nought"


def test_a_new_version_brings_the_names_of_its_new_classes_and_those_that_are_known_are_not_read_again(
    bench, follower, slot
):
    follower.refresh()
    known = slot.current.ids[0]
    slot.names = slot.names | {known: "as it was read before"}
    bench.learn([3])

    assert follower.refresh()
    assert slot.name_of(known) == "as it was read before"
    assert slot.name_of(slot.current.ids[-1]) == "digit-3"


def test_a_damaged_version_leaves_the_old_one_answering_and_says_so(bench, follower, slot):
    follower.activate(1)
    damage(bench, 2)
    bench.parts.versions.activate(2)
    slot.swap(slot.current)

    assert not follower.refresh()
    assert slot.version == 1
    assert follower.problem == "version 2 cannot be loaded (A version's files are damaged); the log says why"
    assert not follower.refresh(), "and it is not tried again at once"


def test_a_process_that_starts_with_a_damaged_version_answers_from_the_one_below(bench, follower, slot):
    damage(bench, 2)

    assert follower.refresh()
    assert slot.version == 1
    assert "version 1 answers instead" in follower.problem


def test_a_damaged_version_never_becomes_the_active_one(bench, follower):
    damage(bench, 1)

    with pytest.raises(CorruptBundle, match=r"index\.faiss"):
        follower.activate(1)
    assert bench.parts.versions.active().version == 2


def test_activation_refuses_what_is_not_there_and_who_is_late(follower, slot):
    with pytest.raises(UnknownVersion):
        follower.activate(9)
    with pytest.raises(VersionChanged, match="2"):
        follower.activate(1, expected=1)
    assert slot.version is None


def test_a_database_that_is_away_is_noticed_and_answers_go_on(bench, follower, slot, monkeypatch):
    follower.refresh()

    def away():
        raise DatabaseUnreachable("away")

    with monkeypatch.context() as patched:
        patched.setattr(bench.parts.versions, "active", away)
        with pytest.raises(DatabaseUnreachable):
            follower.refresh()
    assert follower.database_problem is not None
    assert slot.version == 2
    follower.refresh()
    assert follower.database_problem is None


def test_files_that_are_away_leave_the_old_version_answering_and_are_asked_again(bench, follower, slot, monkeypatch):
    follower.activate(1)
    bench.parts.versions.activate(2)
    monkeypatch.setattr(follow, "_AWAY_SECONDS", 0.0)  # and not the half minute of a version that is damaged

    def away(key):
        raise StorageUnreachable("away")

    with monkeypatch.context() as patched:
        patched.setattr(bench.parts.artifacts, "local", away)
        assert not follower.refresh()
    assert slot.version == 1
    assert "version 2 cannot be loaded (The storage of the files does not answer)" in follower.problem
    assert follower.refresh()
    assert (slot.version, follower.problem) == (2, None)
