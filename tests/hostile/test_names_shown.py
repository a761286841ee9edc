"""A class may be called nearly anything. Wherever its name is shown, it is text and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pictures import picture
from tests.processes import Api, Service

pytestmark = pytest.mark.slow

LITERAL = [
    "[bold red]x",
    "[link=javascript:alert(1)]click",
    "<img src=x onerror=alert(1)>",
    "'; DROP TABLE classes; --",
    "{0} %s ${HOME} `id`",
    "=1+1",
    "-rf",
    "\u05d0\u05d1\u05d2",  # right to left by nature, as Hebrew is
]
REFUSED = [
    "a\x1b[31mred",
    "a\nb",
    "a\u202eb",
    "a\u200fb",
    "a\u2066b",
    "\u3164",
    "../x",
    "x" * 201,
    "\ud800",
    "a\u0000b",
]


@pytest.fixture
def renamed(api: Api):
    """Gives the first class a name, as a stranger would."""

    def rename(name: str):
        first = api.get("/v1/classes")["data"][0]["id"]
        escaped = "".join(f"\\u{unit:04x}" for unit in _units(name))
        return api.http.patch(
            f"/v1/classes/{first}", content=f'{{"name": "{escaped}"}}', headers={"Content-Type": "application/json"}
        )

    return rename


@pytest.mark.parametrize("name", LITERAL)
def test_a_name_is_shown_as_it_is_by_the_api_and_on_a_terminal(
    service: Service, api: Api, renamed, tmp_path: Path, name: str
) -> None:
    assert renamed(name).status_code == 200
    (tmp_path / "image.png").write_bytes(picture(0))
    url = str(api.http.base_url)

    listed = api.http.get("/v1/classes")
    table, _ = service.run("classes", "--url", url)
    guess, _ = service.run("classify", tmp_path / "image.png", "--url", url)

    assert listed.headers["content-type"] == "application/json"
    assert name in [entry["name"] for entry in listed.json()["data"]]
    assert name in table
    assert name in guess
    assert "\x1b" not in table + guess


@pytest.mark.parametrize("name", REFUSED)
def test_a_name_that_hides_or_reorders_text_is_refused_and_not_repeated_as_it_is(api: Api, renamed, name: str) -> None:
    refused = renamed(name)

    assert refused.status_code == 422
    assert refused.json()["code"] in ("bad_class_name", "invalid_request")
    assert refused.json()["detail"].isprintable()


def test_a_metric_names_no_class(api: Api, renamed) -> None:
    renamed('evil"} 1\nzstci_active_version 99')
    renamed("evil quoted")

    assert "evil" not in api.http.get("/metrics").text


def _units(name: str) -> list[int]:
    """UTF-16, as JSON writes characters; also halves of them."""
    raw = name.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(raw[i : i + 2], "big") for i in range(0, len(raw), 2)]
