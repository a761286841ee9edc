"""Who is let in, and who is not."""

import time
from typing import Any

import pytest

from service.app import create_app
from service.bootstrap import Parts
from service.domain import Actor
from service.storage.times import now
from service.tokens import digest, new_token
from tests.local import local_client
from tests.pictures import picture
from tests.unit.service.api.sending import NEW, packed, send
from tests.unit.service.api.surface import refused
from tests.unit.service.storage.samples import a_key

ACTOR = Actor(None, "test")
ADMIN_KEY = "k" * 40


def parts_of(client: Any) -> Parts:
    found: Parts = client.app.state.parts
    return found


def ask(client, **headers):
    return client.post("/v1/classify", content=picture(1), headers={k.replace("_", "-"): v for k, v in headers.items()})


def test_from_the_first_key_on_everybody_needs_one(client, make_key):
    assert ask(client).status_code == 200
    key = make_key()

    problem = refused(ask(client), 401, "unauthenticated")
    assert "Authorization: Bearer" in problem["detail"]
    assert ask(client, **key).status_code == 200


def test_the_end_of_the_last_key_does_not_open_the_door(client, parts, make_key):
    key = make_key("admin")
    [entry] = client.get("/v1/keys", headers=key).json()["data"]
    assert client.delete(f"/v1/keys/{entry['id']}", headers=key).json()["state"] == "revoked"

    refused(ask(client, **key), 401, "unauthenticated")
    refused(ask(client), 401, "unauthenticated")


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic {token}",
        "{token}",
        "Bearer {token}x",
        "Bearer x{token}",
        "Bearer {token} {token}",
        "Bearer {other}",
        "Bearer \xff\xfe",
        "Bearer " + "x" * 10_000,
    ],
)
def test_what_is_no_good_key_is_refused_and_not_repeated(client, make_key, given):
    token = make_key()["Authorization"].removeprefix("Bearer ")
    value = given.format(token=token, other=new_token(token.split("_")[1]))
    response = ask(client, Authorization=value.encode("latin-1"))

    refused(response, 401, "unauthenticated")
    assert token not in response.text


@pytest.mark.parametrize("kind", ["Bearer", "bearer", "BEARER", "Bearer  "])
def test_the_word_before_a_key_may_be_written_in_any_way(client, make_key, kind):
    token = make_key()["Authorization"].removeprefix("Bearer ")
    assert ask(client, Authorization=f"{kind} {token}").status_code == 200


def test_an_expired_key_is_refused(client, parts):
    token = new_token("0123456789ab")
    parts.keys.add(a_key("0123456789ab", expires_at=now()), digest(token))
    parts.keyring.refresh()

    refused(ask(client, Authorization=f"Bearer {token}"), 401, "unauthenticated")


def test_a_key_that_is_revoked_in_one_process_is_soon_refused_by_another(home):
    quick = home.model_copy(update={"poll_seconds": 0.05})
    with local_client(create_app(quick)) as one, local_client(create_app(quick)) as other:
        made = one.post("/v1/keys", json={"name": "camera", "scope": "admin"}).json()
        key = {"Authorization": f"Bearer {made['key']}"}
        wait_for(other, key, 200)
        one.delete(f"/v1/keys/{made['id']}", headers=key)
        assert ask(one, **key).status_code == 401
        wait_for(other, key, 401)


def wait_for(client, key, status) -> None:
    deadline = time.monotonic() + 20
    while ask(client, **key).status_code != status or ask(client).status_code != 401:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_stream_ends_when_its_key_is_revoked(client, parts, make_key):
    key = make_key("update")
    update = client.post("/v1/updates", files=packed(NEW), headers=key).json()["id"]
    seen = []
    with client.stream("GET", f"/v1/updates/{update}/events", headers=key) as stream:
        parts.key_manager.revoke(ACTOR, key["Authorization"].split("_")[1])
        parts.keyring.refresh()
        seen += stream.iter_lines()  # until the service ends it: no worker runs, so the update never does

    assert "event: done" not in seen


def test_a_key_of_the_environment_is_an_admin_and_stored_nowhere(home):
    with local_client(create_app(home.model_copy(update={"admin_key": ADMIN_KEY}))) as client:
        refused(ask(client), 401, "unauthenticated")
        key = {"Authorization": f"Bearer {ADMIN_KEY}"}
        assert client.post("/v1/keys", json={"name": "camera"}, headers=key).status_code == 201
        assert [entry["name"] for entry in client.get("/v1/keys", headers=key).json()["data"]] == ["camera"]
        [entry] = client.get("/v1/audit", headers=key).json()["data"]
        assert (entry["actor"], entry["key_id"]) == ("environment", "environment")
    stored = b"".join(path.read_bytes() for path in home.home.glob("zstci.db*"))
    assert ADMIN_KEY.encode() not in stored


@pytest.fixture
def stranger(home):
    """Somebody on another machine."""
    with local_client(create_app(home), client=("10.1.2.3", 50000)) as client:
        yield client


def test_without_any_key_only_the_machine_itself_is_answered(stranger):
    problem = refused(ask(stranger), 401, "unauthenticated")

    assert "zstci keys create" in problem["detail"]
    assert stranger.get("/healthz").status_code == 200


def test_with_a_key_it_does_not_matter_from_where_and_under_which_name(stranger):
    parts = parts_of(stranger)
    _, token = parts.key_manager.create(ACTOR, "camera", "query")
    parts.keyring.refresh()

    found = ask(stranger, Authorization=f"Bearer {token}", Host="birds.example", Origin="https://evil.example")
    assert found.status_code == 200


def test_an_insecure_service_answers_anybody_but_no_foreign_page(home):
    insecure = home.model_copy(update={"insecure": True})
    with local_client(create_app(insecure), client=("10.1.2.3", 50000)) as client:
        parts = parts_of(client)
        parts.key_manager.create(ACTOR, "camera", "query")
        parts.keyring.refresh()
        assert ask(client, Host="birds.example").status_code == 200
        assert ask(client, Authorization="Basic of-a-proxy").status_code == 200
        refused(ask(client, Host="birds.example", Origin="https://evil.example"), 403, "foreign_origin")
        assert client.patch("/v1/classes/digit-0", json={"name": "zero"}).status_code == 200
        assert client.get("/v1/audit").json()["data"][0]["actor"] == "anybody"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "10.0.0.1", "localhost.evil.example", "a@localhost"]
)
def test_a_name_that_was_bound_to_this_machine_is_refused(client, host):
    refused(ask(client, Host=host), 403, "foreign_host")
    refused(client.get("/v1/classes", headers={"Host": host}), 403, "foreign_host")
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "LocalHost:8000", "127.0.0.1:8000", "[::1]:8000"])
def test_the_names_of_this_machine_are_answered(client, host):
    assert ask(client, Host=host).status_code == 200


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "http://localhost.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_foreign_page_changes_nothing(client, headers):
    for method, path in [
        ("POST", "/v1/updates"),
        ("POST", "/v1/versions/1/activate"),
        ("PATCH", "/v1/classes/digit-0"),
        ("DELETE", "/v1/classes/digit-0"),
        ("POST", "/v1/keys"),
        ("POST", "/v1/classify"),
    ]:
        refused(client.request(method, path, headers=headers), 403, "foreign_origin")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://127.0.0.1:8000", "Host": "127.0.0.1:8000"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_our_own_page_is_no_foreign_one(client, headers):
    assert client.post("/v1/classify", content=picture(1), headers=headers).status_code == 200


def test_other_pages_may_read_nothing_by_default(client):
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}

    assert "Access-Control-Allow-Origin" not in client.get("/v1/classes", headers=asked).headers
    assert client.options("/v1/classify", headers=asked).status_code == 405


def test_pages_that_were_named_may_call_and_no_others(home):
    named = home.model_copy(update={"cors_origins": "https://a.example, https://b.example"})
    with local_client(create_app(named)) as client:
        for origin, allowed in [("https://a.example", True), ("https://b.example", True), ("https://c.example", False)]:
            asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
            before = client.options("/v1/classify", headers=asked)
            assert (before.headers.get("Access-Control-Allow-Origin") == origin) is allowed
            answer = ask(client, Origin=origin, Sec_Fetch_Site="cross-site")
            assert (answer.status_code == 200) is allowed
            assert "Access-Control-Allow-Credentials" not in answer.headers


def test_a_key_that_asks_too_much_has_to_wait_and_others_do_not(home):
    with local_client(create_app(home.model_copy(update={"rate_limit": 0.01, "rate_burst": 2}))) as client:
        parts = parts_of(client)
        tokens = [parts.key_manager.create(ACTOR, name, "query")[1] for name in ("camera", "robot")]
        parts.keyring.refresh()
        busy, calm = ({"Authorization": f"Bearer {token}"} for token in tokens)
        assert [ask(client, **busy).status_code for _ in range(3)] == [200, 200, 429]
        response = ask(client, **busy)
        refused(response, 429, "rate_limited")
        assert 0 < int(response.headers["Retry-After"]) <= 100
        assert ask(client, **calm).status_code == 200
        assert client.get("/healthz").status_code == 200


def test_who_sends_one_wrong_key_after_the_other_has_to_wait_and_a_right_one_is_let_in(client, make_key):
    key, wrong = make_key(), {"Authorization": "Bearer nobody's"}
    answers = [ask(client, **wrong) for _ in range(110)]

    assert {answer.status_code for answer in answers[:100]} == {401}
    refused(answers[-1], 429, "rate_limited")
    assert int(answers[-1].headers["Retry-After"]) >= 1
    assert ask(client, **key).status_code == 200


def test_metrics_need_a_key_unless_they_are_open(client, make_key):
    key = make_key()
    refused(client.get("/metrics"), 401, "unauthenticated")

    counted = client.get("/metrics", headers=key).text
    assert 'zstci_refused_total{code="unauthenticated"}' in counted


def test_open_metrics_are_open_to_all_and_nothing_else_is(home):
    with local_client(create_app(home.model_copy(update={"open_metrics": True, "admin_key": ADMIN_KEY}))) as client:
        assert client.get("/metrics").status_code == 200
        refused(client.get("/v1/classes"), 401, "unauthenticated")


def test_a_wrong_key_is_told_before_anything_is_read(client, parts, make_key):
    make_key()
    refused(send(client), 401, "unauthenticated")

    assert parts.updates.list(10) == ([], None)
