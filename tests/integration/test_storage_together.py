"""Several threads and processes at the same rows."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from itertools import repeat
from threading import Barrier

import pytest

from service.domain import Report
from service.errors import ClassExists
from service.storage.updates import UpdateStore
from service.storage.versions import VersionStore
from tests.unit.service.storage.samples import OPTIONS, a_version, an_update, publish_one


def test_of_threads_that_build_on_the_same_version_exactly_one_publishes(database_url, database):
    together = Barrier(6)
    for expected in (None, 1, 2):
        bundles = [f"versions/{expected}-{number}" for number in range(6)]
        with ThreadPoolExecutor(6) as pool:
            numbers = list(pool.map(publish_one, repeat(database_url), bundles, repeat(expected), repeat(together)))
        won = [number for number in numbers if number is not None]
        assert won == [(expected or 0) + 1] == [VersionStore(database).active().version]

    assert len(VersionStore(database).list(99)[0]) == len(VersionStore(database).names()) == 3


@pytest.mark.slow
def test_of_processes_that_build_on_the_same_version_exactly_one_publishes(database_url, database):
    bundles = [f"versions/{number}" for number in range(8)]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        numbers = list(pool.map(publish_one, repeat(database_url), bundles, repeat(None)))

    assert sorted(number for number in numbers if number) == [1]
    assert VersionStore(database).active().version == 1


def test_the_same_bundle_from_several_at_once_becomes_one_version(database_url, database):
    together = Barrier(4)
    with ThreadPoolExecutor(4) as pool:
        numbers = list(pool.map(publish_one, repeat(database_url), ["versions/a"] * 4, repeat(None), repeat(together)))

    assert numbers == [1, 1, 1, 1]
    assert len(VersionStore(database).list(9)[0]) == 1


def test_versions_that_wait_to_be_activated_get_different_numbers(database):
    def publish(number: int) -> int:
        new = a_version(f"versions/{number}")
        return VersionStore(database).publish(new, expected=None, activate=False, names={}).number

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(publish, range(12))) == list(range(1, 13))


def test_the_same_key_from_several_at_once_is_one_update(database):
    together = Barrier(6)
    store = UpdateStore(database)

    def add(number: int) -> str:
        together.wait()
        return store.add(an_update(f"u{number}"), "key", "f").id

    with ThreadPoolExecutor(6) as pool:
        answered = set(pool.map(add, range(6)))

    assert len(answered) == 1
    assert [update.id for update in store.list(9)[0]] == list(answered)
    assert len(store.events(answered.pop())) == 1


def test_a_reader_that_asks_for_what_came_after_misses_no_event(database):
    store = UpdateStore(database)
    store.add(an_update(), None, "f")
    store.begin("u1")

    def write(_: int) -> None:
        for step in range(15):
            store.report("u1", 1, Report("fine_tuning", step / 20))

    seen: list[int] = []
    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write, number) for number in range(4)]
        while not all(writer.done() for writer in writers):
            seen += [event.id for event in store.events("u1", after=seen[-1] if seen else 0)]
    seen += [event.id for event in store.events("u1", after=seen[-1])]

    assert seen == [event.id for event in store.events("u1")]
    assert len(seen) == 2 + 4 * 15


def test_a_cancel_and_an_end_at_the_same_time_agree(database):
    store = UpdateStore(database)
    for number in range(8):
        name = f"u{number}"
        store.add(an_update(name), None, "f")
        with ThreadPoolExecutor(2) as pool:
            begun, cancelled = pool.submit(store.begin, name), pool.submit(store.cancel, name)
        # Either it was cancelled while it waited, or it runs and knows that it should stop.
        assert cancelled.result().cancel_requested
        assert store.get(name).state == ("cancelled" if begun.result() is None else "running")
        assert store.cancel_requested(name)


def test_one_class_from_several_at_once_is_one_update(database):
    together = Barrier(6)
    store = UpdateStore(database)
    once = replace(OPTIONS, on_existing_class="reject")

    def add(number: int) -> str | None:
        together.wait()
        try:
            return store.add(an_update(f"u{number}", options=once), f"key {number}", "f").id
        except ClassExists:
            return None

    with ThreadPoolExecutor(6) as pool:
        added = [found for found in pool.map(add, range(6)) if found]

    assert added == store.unfinished()
    assert len(added) == 1
