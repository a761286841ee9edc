"""What every answer tells a browser, whatever the answer is."""

import re

import pytest

from tests.pictures import picture


@pytest.mark.parametrize(
    "path",
    ["/healthz", "/readyz", "/v1/classes", "/v1/nothing", "/v1/versions/x", "/metrics", "/docs", "/openapi.json"],
)
def test_nothing_is_guessed_framed_told_or_kept(client, path):
    headers = client.get(path).headers

    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"


def test_answers_to_queries_and_unexpected_errors_are_protected_alike(client):
    async def broken() -> None:
        raise RuntimeError

    client.app.add_api_route("/broken", broken)
    for response in (client.post("/v1/classify", content=picture(1)), client.get("/broken")):
        assert response.headers.get_list("X-Frame-Options") == ["DENY"]
        assert response.headers.get_list("Cache-Control") == ["no-store"]


def test_the_docs_work_under_their_own_policy(client):
    """Every script and style of the page comes from a file of ours, which the policy lets in, and is not kept out by
    its type; an inline script would not run."""
    page = client.get("/docs")
    policy = dict(part.split(" ", 1) for part in page.headers["Content-Security-Policy"].split("; "))
    scripts = re.findall(r"<script([^>]*)>([^<]*)</script>", page.text)

    assert policy["script-src"] == "'self'"
    assert policy["connect-src"] == "'self'"
    assert len(scripts) == 2
    for attributes, inline in scripts:
        assert inline == ""
        source = re.search(r'src="([^"]+)"', attributes)
        assert source is not None
        found = client.get(f"/{source[1]}")
        assert (found.status_code, found.headers["X-Content-Type-Options"]) == (200, "nosniff")
        assert found.headers["Content-Type"].startswith("text/javascript")
    assert not re.search(r"\son\w+=", page.text), "a handler in the page would not run"
    assert "'self'" in policy["style-src"]


def test_files_of_the_docs_may_be_kept(client):
    assert "Cache-Control" not in client.get("/docs/assets/swagger-ui.css").headers
