import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.domain import Report
from service.storage.tables import VersionRow
from tests.pictures import picture
from tests.unit.service.api.sending import digits, send

NAMED_IN_THE_DOCS = {
    "zstci_request_duration_seconds",
    "zstci_batch_size",
    "zstci_active_version",
    "zstci_swap_duration_seconds",
    "zstci_updates",
    "zstci_update_progress_ratio",
    "zstci_prototypes",
}


def read(client) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    response = client.get("/metrics")
    assert response.status_code == 200
    families = text_string_to_metric_families(response.text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


@pytest.fixture
def value(client):
    def value(name: str, **labels: str) -> float:
        return read(client).get((name, frozenset(labels.items())), 0.0)

    return value


def test_everything_that_is_documented_is_there(client):
    client.post("/v1/classify", content=picture(1))
    families = {family.name for family in text_string_to_metric_families(client.get("/metrics").text)}

    assert families >= NAMED_IN_THE_DOCS


def test_the_version_that_answers(client, value):
    assert (value("zstci_active_version"), value("zstci_prototypes")) == (2, 5)
    assert value("zstci_swap_duration_seconds") > 0
    assert value("zstci_version_not_loaded") == 0
    client.post("/v1/versions/1/activate")
    assert (value("zstci_active_version"), value("zstci_prototypes")) == (1, 3)


def test_before_anything_is_learnt(empty_client):
    values = {name: number for (name, labels), number in read(empty_client).items() if not labels}

    assert (values["zstci_active_version"], values["zstci_prototypes"]) == (0, 0)


def test_queries_are_counted_with_their_images_and_stages(client, value):
    def counts(operation: str) -> list[float]:
        stages = ("decode", "embed", "search", "all")
        return [value("zstci_request_duration_seconds_count", op=operation, stage=stage) for stage in stages]

    before, images, classified = counts("search"), value("zstci_batch_size_sum"), counts("classify")
    client.post("/v1/search", files=[("a", ("a.png", picture(1)))] * 3)

    assert counts("search") == [count + 1 for count in before]
    assert counts("classify") == classified
    assert value("zstci_batch_size_sum") == images + 3


def test_queries_that_are_inside_are_shown(value, parts):
    with parts.gate:
        assert value("zstci_queries_in_flight") == 1
    assert value("zstci_queries_in_flight") == 0


def test_updates_by_their_state_and_the_progress_of_the_one_at_work(client, value, parts):
    ids = [send(client, digits(digit)).json()["id"] for digit in (7, 8, 9)]
    client.post(f"/v1/updates/{ids[0]}/cancel")
    assert value("zstci_update_progress_ratio") == 0
    parts.updates.begin(ids[1])
    parts.updates.report(ids[1], 1, Report("fine_tuning", 0.25))

    assert [value("zstci_updates", state=state) for state in ("queued", "running", "cancelled")] == [1, 1, 1]
    assert value("zstci_update_progress_ratio") == 0.25


def test_what_the_translator_left_over(client, value, parts):
    assert ("zstci_translator_residual", frozenset()) not in read(client)
    with parts.database.write() as session:
        row = session.get_one(VersionRow, 2)
        row.facts = {**row.facts, "translation": {"name": "linear", "residual": 0.5}}

    assert value("zstci_translator_residual") == 0.5
