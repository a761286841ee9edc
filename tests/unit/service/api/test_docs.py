"""The page for trying the API out works on a machine without the internet."""

import re
from html.parser import HTMLParser

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from service.api.docs import add_docs


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("href", "src")]


@pytest.fixture
def http():
    app = FastAPI(title="birds & <bees>", docs_url=None, redoc_url=None)
    add_docs(app)
    with TestClient(app) as client:
        yield client


@pytest.fixture
def page(http):
    return http.get("/docs")


def test_the_page_asks_no_foreign_host(http, page):
    assert page.status_code == 200
    for text in (page.text, http.get("/docs/start.js").text):
        assert not re.search(r"(https?:)?//\w", text)


def test_the_policy_lets_in_no_foreign_host_and_no_inline_script(page):
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "http" not in policy
    assert not re.search(r"<script>|<style>|\son\w+=|\sstyle=", page.text)


def test_everything_that_the_page_names_is_there(http, page):
    links = Links()
    links.feed(page.text)

    assert len(links.found) == 5
    for link in links.found:
        response = http.get("/docs").url.join(link)
        assert http.get(str(response)).status_code == 200, link


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/docs", "text/html"),
        ("/docs/start.js", "text/javascript"),
        ("/docs/assets/swagger-ui-bundle.js", "text/javascript"),
        ("/docs/assets/swagger-ui.css", "text/css"),
        ("/docs/assets/favicon-32x32.png", "image/png"),
    ],
)
def test_a_browser_is_told_what_each_file_is(http, path, kind):
    assert http.get(path).headers["Content-Type"].startswith(kind)


def test_the_description_is_not_sent_to_a_validator_and_is_read_from_here(http):
    start = http.get("/docs/start.js").text
    assert '"validatorUrl": null' in start
    assert '"url": "docs/openapi.json"' in start


def test_swagger_ui_is_new_enough_for_openapi_3_1(http):
    version = re.search(r'PACKAGE_VERSION:"(\d+)\.', http.get("/docs/assets/swagger-ui-bundle.js").text)
    assert version is not None
    assert int(version[1]) >= 5
    assert http.get("/openapi.json").json()["openapi"].startswith("3.1")


def test_the_title_is_escaped_and_the_page_is_not_part_of_the_api(http, page):
    assert "<title>birds &amp; &lt;bees&gt;: try it</title>" in page.text
    assert http.get("/openapi.json").json()["paths"] == {}


def test_a_file_that_is_not_there_is_not_found(http):
    assert http.get("/docs/assets/nothing.js").status_code == 404
    assert http.get("/docs/assets/..%2f__init__.py").status_code == 404
