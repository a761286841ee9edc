import time
from contextlib import aclosing

import anyio
import pytest
from starlette.responses import PlainTextResponse

from service.client import ApiError, AsyncClient, Progress, UpdateCancelled, UpdateFailed
from service.errors import Busy, ServiceUnreachable
from tests.blocking import CLIENTS, connected
from tests.contract_server import FAILED, SUCCEEDED, UPDATE, busy, problem, running, update_entry

EVENTS = f"/v1/updates/{UPDATE}/events"
STORY = [
    ("state", {"state": "queued"}),
    ("state", {"state": "running"}),
    ("progress", {"stage": "embedding", "progress": 0.1, "eta_seconds": None}),
    ("progress", {"stage": "fine_tuning", "progress": 0.5, "eta_seconds": 3.5, "epoch": 1, "epochs": 2, "loss": 0.25}),
    ("metric", {"accuracy": 87.5}),
    ("state", {"state": "succeeded"}),
    ("done", {"state": "succeeded", "version": 2, "error": None}),
]


@pytest.fixture(scope="module")
def contract():
    with running() as contract:
        yield contract


@pytest.fixture
def server(contract):
    contract.forget()
    contract.events = STORY
    return contract


@pytest.fixture(params=CLIENTS.values(), ids=list(CLIENTS))
def update(request, server):
    with connected(request.param, server.url, timeout=1) as client:
        yield client.update(UPDATE)


def resumed_after(server) -> list[str | None]:
    return [request.headers.get("Last-Event-ID") for request in server.asked(EVENTS)]


def test_events_come_in_order_and_end_with_done(update):
    events = list(update.events())
    assert [event.kind for event in events] == [kind for kind, _ in STORY]
    assert [event.id for event in events] == list(range(1, 8))
    assert events[3].data["loss"] == 0.25
    assert events[3].attempt == 1


def test_a_stream_that_is_cut_goes_on_behind_the_last_whole_event(update, server):
    server.cuts = [4, 4, 6]
    assert [event.id for event in update.events()] == list(range(1, 8))
    assert resumed_after(server) == [None, "3", "3", "5"]


def test_events_can_be_read_from_the_middle(update):
    assert [event.id for event in update.events(after=5)] == [6, 7]


def test_behind_the_last_event_of_an_update_that_has_ended_nothing_is_waited_for(update, server):
    server.update = update_entry(**SUCCEEDED)
    assert list(update.events(after=7)) == []


def test_a_service_that_restarts_meanwhile_is_waited_for(update, server):
    server.script[EVENTS] = [busy(0), PlainTextResponse("bad gateway", 502), PlainTextResponse("a page")]
    assert len(list(update.events())) == 7


def test_events_keep_to_retry_after_even_where_it_is_longer_than_the_timeout(update, server):
    server.script[EVENTS] = [busy(2)]
    begun = time.monotonic()
    assert len(list(update.events())) == 7
    assert time.monotonic() - begun >= 2


@pytest.mark.parametrize(("answers", "asked"), [([busy(0)] * 10, 5), ([busy(3600)], 1)])
def test_events_of_a_service_that_stays_busy_are_given_up(update, server, answers, asked):
    server.script[EVENTS] = list(answers)
    with pytest.raises(Busy):
        list(update.events())
    assert len(server.asked(EVENTS)) == asked


def test_a_service_that_stays_away_is_given_up(update, server):
    server.cuts = [1] * 1000
    with pytest.raises(ServiceUnreachable, match="the events broke off"):
        list(update.events())


def test_an_update_that_is_not_there_is_an_error_at_once(update, server):
    server.script[EVENTS] = [problem(404, "unknown_update", "no such update")]
    with pytest.raises(ApiError, match="no such update"):
        list(update.events())


def test_wait_tells_the_progress_and_returns_the_entry(update, server):
    server.update = update_entry(**SUCCEEDED)
    told: list[Progress] = []
    entry = update.wait(on_progress=told.append)

    assert (entry.state, entry.version, entry.ended) == ("succeeded", 2, True)
    assert update.entry is entry
    assert [(step.stage, step.progress, step.loss) for step in told] == [
        ("embedding", 0.1, None),
        ("fine_tuning", 0.5, 0.25),
    ]


def test_wait_raises_what_the_update_failed_of(update, server):
    server.update = update_entry(**FAILED)
    with pytest.raises(UpdateFailed, match="failed: training left the finite numbers; lower the learning") as caught:
        update.wait()
    assert (caught.value.code, caught.value.entry.state) == ("diverged", "failed")


def test_wait_raises_for_a_cancelled_update(update, server):
    server.update = update_entry(state="cancelled")
    with pytest.raises(UpdateCancelled, match="nothing has changed"):
        update.wait()
    server.update = update_entry(state="cancelled", instant_version=3)
    with pytest.raises(UpdateCancelled, match="its instant version 3 stays"):
        update.wait()


def test_cancel_and_refresh_change_the_entry(update, server):
    assert not update.entry.cancel_requested
    assert update.cancel().cancel_requested
    server.update = update_entry(state="cancelled", progress=0.5)
    assert update.refresh().state == "cancelled"
    assert repr(update) == f"<Update {UPDATE} cancelled 50 %>"


def test_a_cancel_that_came_too_late_is_an_error(update, server):
    server.script[f"/v1/updates/{UPDATE}/cancel"] = [problem(409, "update_ended", "it has ended")]
    with pytest.raises(ApiError) as caught:
        update.cancel()
    assert caught.value.code == "update_ended"


def test_events_come_one_by_one_and_may_be_left_before_their_end(server):
    """What a program with an event loop does; others run meanwhile."""
    server.update = update_entry(**SUCCEEDED)
    told: list[str] = []

    async def tell(progress: Progress) -> None:
        await anyio.sleep(0)
        told.append(progress.stage)

    async def main() -> list[int]:
        async with AsyncClient(server.url, timeout=5) as client:
            update = await client.update(UPDATE)
            seen = []
            async with aclosing(update.events()) as events:
                async for event in events:
                    seen.append(event.id)
                    if event.id == 3:
                        break
            await update.wait(on_progress=tell)
            return seen

    assert anyio.run(main) == [1, 2, 3]
    assert told == ["embedding", "fine_tuning"]
