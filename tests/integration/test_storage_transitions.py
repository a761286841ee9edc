"""Whatever a worker, a second worker and a user do, in whatever order: the life of an update stays a life."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.domain import ENDED, Event, Report
from service.errors import UpdateEnded
from service.storage.database import Database
from service.storage.migrate import upgrade
from service.storage.updates import UpdateStore
from tests.unit.service.storage.samples import an_update

ATTEMPTS = st.integers(0, 3)
STEPS = st.one_of(
    st.tuples(st.just("begin")),
    st.tuples(st.just("cancel")),
    st.tuples(st.just("report"), ATTEMPTS, st.floats(-1, 2) | st.just(float("nan"))),
    st.tuples(st.just("metric"), ATTEMPTS, st.integers()),
    st.tuples(st.just("finish"), ATTEMPTS, st.sampled_from(ENDED)),
    st.tuples(st.just("purged")),
)


def take(store: UpdateStore, step: tuple[Any, ...]) -> None:
    match step:
        case ("begin",):
            store.begin("u")
        case ("cancel",):
            try:
                store.cancel("u")
            except UpdateEnded:
                assert store.get("u").state in ENDED
        case ("report", attempt, progress):
            store.report("u", attempt, Report("embedding", progress))
        case ("metric", attempt, value):
            store.metric("u", attempt, {"value": value})
        case ("finish", attempt, state):
            store.finish("u", attempt, state)
        case ("purged",):
            store.purged("u", {})


def check_story(events: list[Event], state: str) -> None:
    """What a client is told, from the first event to the last."""
    assert [event.id for event in events] == sorted({event.id for event in events})
    attempts = [event.attempt for event in events]
    assert attempts == sorted(attempts)
    states = [event.data["state"] for event in events if event.kind == "state"]
    assert states[0] == "queued"
    assert states[-1] == state
    assert all(between == "running" for between in states[1:-1])
    assert sum(event.kind == "done" for event in events) == (state in ENDED) == (events[-1].kind == "done")
    for attempt in set(attempts):
        told = [event.data["progress"] for event in events if event.kind == "progress" and event.attempt == attempt]
        assert told == sorted(told)
        assert all(0 <= progress <= 1 for progress in told)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=14))
def test_an_update_ends_once_and_its_events_tell_its_story(steps):
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder, 'zstci.db')}"
        upgrade(url)
        database = Database(url)
        try:
            store = UpdateStore(database)
            store.add(an_update("u"), None, "f")
            for step in steps:
                before = store.get("u")
                take(store, step)
                after = store.get("u")
                if before.state in ENDED:
                    assert (after.state, after.version, after.ended_at) == (
                        before.state,
                        before.version,
                        before.ended_at,
                    )
                assert after.attempt >= before.attempt
                assert (after.ended_at is not None) == (after.state in ENDED)
                check_story(store.events("u"), after.state)
        finally:
            database.close()
