import json
from collections import Counter

import pytest
from starlette.responses import JSONResponse
from typer.testing import CliRunner

from service.cli import app, main
from service.cli.bench import Load
from tests.contract_server import busy, problem, running


@pytest.fixture(scope="module")
def contract():
    with running() as contract:
        yield contract


@pytest.fixture
def server(contract, monkeypatch):
    contract.forget()
    monkeypatch.setenv("ZSTCI_URL", contract.url)
    return contract


ANSWER: dict[str, object] = {"predictions": [], "margin": None, "version": 2}


def bench(*options: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["bench", "--seconds", "0.3", "--clients", "3", *options], catch_exceptions=False)
    return result.exit_code, result.stdout


def test_every_answer_is_counted_once(server):
    code, out = bench("--json")
    found = json.loads(out)
    assert (code, found["refused"], found["versions"], found["clients"]) == (0, {}, [2], 3)
    assert found["answers"] == len(server.asked("/v1/classify")) - 1  # one query before it begins
    assert found["answers_per_second"] == pytest.approx(found["answers"] / found["seconds"], rel=0.05)
    assert 0 < found["p50_ms"] <= found["p95_ms"] <= found["p99_ms"] <= found["slowest_ms"]
    assert bench()[1].startswith("clients")


def test_what_was_refused_shows_and_is_not_asked_again(server):
    server.script["/v1/classify"] = [JSONResponse({"data": [ANSWER]}), busy(0), busy(0)]
    code, out = bench("--json")
    found = json.loads(out)
    assert (code, found["refused"]) == (0, {"busy": 2})
    assert len(server.asked("/v1/classify")) == 1 + 2 + found["answers"]


def test_not_one_answer_is_exit_code_1(server):
    server.script["/v1/classify"] = [JSONResponse({"data": [ANSWER]}), *[busy(0)] * 10_000]
    code, out = bench()
    assert code == 1
    assert " x busy" in out


def test_given_images_are_asked_about_in_turn(server, tmp_path):
    paths = [tmp_path / "a.png", tmp_path / "b.png"]
    for path in paths:
        path.write_bytes(b"image")
    assert bench(*map(str, paths))[0] == 0


@pytest.mark.parametrize(("status", "code"), [(503, "no_classes_yet"), (422, "not_an_image")])
def test_a_service_that_cannot_answer_says_why_before_anything_is_measured(server, monkeypatch, capsys, status, code):
    server.script["/v1/classify"] = [problem(status, code, "this is why")]
    monkeypatch.setattr("sys.argv", ["zstci", "bench", "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert json.loads(capsys.readouterr().err)["error"] == {"code": code, "detail": "this is why", "errors": []}


def test_percentiles_are_times_that_somebody_waited():
    load = Load(2.0, [0.001 * n for n in range(1, 101)], Counter(), {1})
    assert load.per_second == 50
    assert [load.percentile(share) for share in (0.5, 0.95, 0.99, 1.0)] == pytest.approx([51, 96, 100, 100])
    assert Load(1.0).percentile(0.5) is None
