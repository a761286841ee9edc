import inspect
import socket
from functools import partial

import httpx
import pytest
from starlette.responses import HTMLResponse

from service.client import ApiError, AsyncClient, AsyncUpdate, Client, Update
from service.client.calls import Request
from service.client.patience import LONGEST_PAUSE
from service.client.transport import Service
from service.errors import (
    BadImage,
    Busy,
    EmptyImage,
    NoClassesYet,
    NotAllowed,
    RateLimited,
    RejectedImages,
    ServiceError,
    ServiceUnreachable,
    Unauthenticated,
    UnknownVersion,
)
from tests.blocking import CLIENTS, connected
from tests.contract_server import Contract, busy, problem, running
from zstci.errors import InvalidConfig, TooFewImages


@pytest.fixture(scope="module")
def contract():
    with running() as contract:
        yield contract


@pytest.fixture
def server(contract):
    contract.forget()
    return contract


@pytest.fixture(params=CLIENTS.values(), ids=list(CLIENTS))
def connect(request):
    """Each kind of client in turn."""
    return partial(connected, request.param)


@pytest.fixture
def client(connect, server: Contract):
    with connect(server.url, timeout=5) as client:
        yield client


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_one_image_has_one_answer_and_several_have_a_list(client):
    assert client.classify(b"image").predictions[0].name == "zero"
    assert [len(answer.predictions) for answer in client.classify([b"a", b"b"], k=1)] == [1, 1]
    assert client.classify([]) == []
    assert client.search(b"image").hits[0].class_id == "digit-0"
    assert client.embed([b"a", b"b"]).data == ((0.5, -0.5), (0.5, -0.5))


def test_an_image_is_bytes_or_a_path(client, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"image")
    assert client.classify(path) == client.classify(str(path)) == client.classify(b"image")
    with pytest.raises(BadImage, match=r"missing\.png cannot be read: No such file"):
        client.classify(tmp_path / "missing.png")
    with pytest.raises(BadImage, match="no image was given"):
        client.embed([])


def test_many_images_go_in_batches_and_one_version_answers_them_all(client, server):
    def images():
        yield from [b"image"] * 17
        server.active = 7  # an update ends between two batches
        yield from [b"image"] * 23

    assert [answer.version for answer in client.classify(images(), k=1)] == [2] * 40
    assert [request.query_params.get("version") for request in server.requests] == [None, "2", "2"]


def test_large_images_go_in_smaller_batches(client, server):
    client.classify([bytes(40 * 2**20)] * 2 + [b"image"])
    assert len(server.requests) == 2


def test_a_bad_image_is_named_by_its_place_in_the_whole_list(client, server):
    faults = [{"pointer": "/images/1", "code": "empty_image", "detail": "no bytes"}]

    def images():
        yield from [b"image"] * 17
        server.script["/v1/embeddings"] = [problem(422, "empty_image", "x", None, faults)]
        yield from [b"image"] * 3

    with pytest.raises(ApiError) as caught:
        client.embed(images())
    assert isinstance(caught.value, EmptyImage)
    [fault] = caught.value.errors
    assert (fault.image, fault.pointer, fault.detail) == (17, "/images/17", "no bytes")


def test_lists_are_read_to_their_end(client, server):
    assert [entry.name for entry in client.classes()] == ["zero", "one"]
    assert [update.id for update in client.updates()] == ["u0", "u1", "u2", "u3", "u4"]
    assert [update.id for update in client.updates(state="queued", limit=3)] == ["u0", "u1", "u2"]
    assert server.requests[-1].query_params["state"] == "queued"
    assert [(entry.number, entry.active) for entry in client.versions()] == [(2, True), (1, False)]


def test_classes_are_renamed_and_deleted_by_ids_of_any_kind(client, server):
    assert client.rename("a/b c?", "new").id == "a/b c?"
    assert client.delete_class("a/b", if_match=2).kind == "delete"
    assert server.requests[-1].headers["If-Match"] == '"2"'


def test_versions_are_activated_if_nobody_was_faster(client, server):
    assert client.activate(1, if_match=2).active
    with pytest.raises(ApiError, match="version 1 is active by now") as caught:
        client.activate(2, if_match=2)
    assert (caught.value.code, caught.value.status) == ("version_changed", 412)
    assert client.activate(2).number == 2
    assert client.version(1).parent is None


def test_ready_names_the_version_or_nothing(client, server):
    assert client.ready().version == 2
    server.script["/readyz"] = [problem(503, "no_classes_yet", "no classes yet")]
    assert client.ready() is None
    server.script["/readyz"] = [problem(500, "internal_error", "broken")]
    with pytest.raises(ApiError, match="broken"):
        client.ready()


def test_a_problem_is_an_error_with_all_that_the_service_said(client):
    with pytest.raises(ApiError) as caught:
        client.version(9)
    error = caught.value
    assert isinstance(error, ServiceError)
    assert (error.code, error.status, error.request_id) == ("unknown_version", 404, "r1")
    assert str(error) == error.detail == "no version 9; there are 1 to 2"
    assert error.errors == ()


def test_a_problem_is_caught_by_the_class_that_the_service_raised(client, server):
    for code, kind in [("unknown_version", UnknownVersion), ("rejected_images", RejectedImages), ("busy", Busy)]:
        server.script["/v1/versions/1"] = [problem(422, code, "it says why")]
        with pytest.raises(kind, match="it says why") as caught:
            client.version(1)
        assert isinstance(caught.value, ApiError)
        assert (caught.value.code, caught.value.status) == (code, 422)
    server.script["/v1/versions/1"] = [problem(422, "too_few_images", "two at least")]
    with pytest.raises(TooFewImages):
        client.version(1)
    server.script["/v1/versions/1"] = [problem(422, "of_a_newer_service", "new")]
    with pytest.raises(ApiError) as caught:
        client.version(1)
    assert type(caught.value) is ApiError


def test_an_answer_of_somebody_else_is_shown_as_it_is(client, server):
    server.script["/v1/versions/1"] = [HTMLResponse("<h1>Bad\n gateway</h1>", 502)]
    with pytest.raises(ApiError, match="502 Bad Gateway, but not as zstci does: <h1>Bad gateway</h1>") as caught:
        client.version(1)
    assert caught.value.code == "http_502"


@pytest.mark.parametrize("status", [503, 429])
def test_a_busy_service_is_asked_again_when_it_says_so(client, server, status):
    server.script["/v1/classify"] = [busy(0, status), busy(0, status)]
    assert client.classify(b"image").version == 2
    assert len(server.asked("/v1/classify")) == 3


def test_retry_after_may_be_a_date(client, server):
    server.script["/v1/classify"] = [busy("Wed, 18 Nov 2020 03:00:00 GMT")]
    assert client.classify(b"image").version == 2


def test_a_pause_as_long_as_a_full_queue_of_updates_asks_for_is_kept_to():
    service = Service.at("http://127.0.0.1:8000", None, timeout=1, tries=5)
    asked, sent = Request("POST", "/v1/updates"), httpx.Request("POST", f"{service.url}/v1/updates")
    told = [httpx.Response(503, headers={"Retry-After": seconds}, request=sent) for seconds in ("60", "61")]
    assert service.wait_after(asked, told[0], 1) == LONGEST_PAUSE
    with pytest.raises(ApiError):
        service.wait_after(asked, told[1], 1)


def a_proxys(status: int) -> HTMLResponse:
    return HTMLResponse("not now", status)


@pytest.mark.parametrize(
    "answer",
    [
        *(partial(a_proxys, status) for status in (429, 503)),
        partial(busy, "soon"),
        partial(problem, 503, "busy", "too much at once"),
        partial(problem, 429, "rate_limited", "too many"),
    ],
)
def test_a_busy_service_that_does_not_say_for_how_long_is_asked_again(client, server, answer):
    server.script["/v1/versions/1"] = [answer(), answer()]
    assert client.version(1).number == 1
    assert len(server.requests) == 3


def test_what_does_not_pass_by_itself_is_not_waited_for(client, server):
    server.script["/v1/classify"] = [problem(503, "no_classes_yet", "no classes yet")]
    with pytest.raises(NoClassesYet):
        client.classify(b"image")
    server.script["/readyz"] = [busy(60)]
    assert client.ready() is None
    assert len(server.requests) == 2


def test_what_must_not_be_done_twice_is_asked_again_only_when_the_service_says_so(client, server):
    server.script["/v1/classes/a"] = [a_proxys(503)]
    with pytest.raises(ApiError, match="not now"):
        client.delete_class("a")
    server.script["/v1/classes/a"] = [busy(0)]
    assert client.delete_class("a").kind == "delete"


@pytest.mark.parametrize("wait", [3600, "Wed, 18 Nov 2999 03:00:00 GMT"])
def test_a_service_that_wants_a_long_pause_is_not_asked_again(client, server, wait):
    server.script["/v1/classify"] = [busy(wait)]
    with pytest.raises(ApiError, match="too much at once"):
        client.classify(b"image")
    assert len(server.requests) == 1


def test_a_service_that_stays_busy_is_given_up(client, server):
    server.script["/v1/classify"] = [busy(0)] * 10
    with pytest.raises(ApiError, match="too much at once"):
        client.classify(b"image")
    assert len(server.requests) == 5


def test_a_client_may_be_told_to_ask_only_once(connect, server):
    server.script["/v1/classify"] = [busy(0)]
    with connect(server.url, tries=1) as client, pytest.raises(Busy):
        client.classify(b"image")
    assert len(server.requests) == 1


def test_no_service_says_how_to_start_one(connect):
    url = f"http://127.0.0.1:{unused_port()}"
    with connect(url) as client, pytest.raises(ServiceUnreachable) as caught:
        client.versions()
    assert str(caught.value) == f"no service at {url}; start it with: make serve (or zstci serve)"


def test_a_service_that_does_not_answer_in_time_is_unreachable(connect):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with connect(url, timeout=0.05) as client, pytest.raises(ServiceUnreachable, match=r"stopped answering \("):
            client.ready()


@pytest.mark.parametrize("kind", CLIENTS.values())
def test_what_is_no_address_is_refused(kind):
    with pytest.raises(InvalidConfig, match="give one such as http://"):
        kind("localhost:8000")


def test_the_key_is_sent_as_a_bearer(connect, server):
    with connect(server.url, key="secret") as client:
        client.ready()
    assert server.requests[-1].headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("kind", [Unauthenticated, NotAllowed, RateLimited])
def test_what_a_key_is_refused_has_a_type_of_its_own(client, server, kind):
    server.script["/v1/classify"] = [problem(kind.status, kind.code, "some detail")] * 5
    with pytest.raises(kind, match="some detail") as caught:
        client.classify(b"image")
    assert isinstance(caught.value, ApiError)
    assert (caught.value.code, caught.value.status) == (kind.code, kind.status)


def test_the_audit_log_is_read_to_its_end_or_as_far_as_wanted(client):
    assert [entry.id for entry in client.audit()] == [3, 2, 1]
    assert [(entry.id, entry.actor) for entry in client.audit(limit=2)] == [(3, "camera 7"), (2, "camera 7")]


def test_a_proxy_of_the_environment_does_not_stand_in_the_way_to_this_machine(connect, server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{unused_port()}")
    with connect(server.url) as client:
        assert client.ready() is not None


def test_both_clients_can_do_the_same_in_the_same_words():
    for one, other in [(Client, AsyncClient), (Update, AsyncUpdate)]:
        names = {name for name in vars(one) if not name.startswith("_")}
        assert names == {name for name in vars(other) if not name.startswith("_")}
        for name in names:
            ours, theirs = (inspect.signature(getattr(kind, name)).parameters for kind in (one, other))
            assert [(p.name, p.default) for p in ours.values()] == [(p.name, p.default) for p in theirs.values()]
