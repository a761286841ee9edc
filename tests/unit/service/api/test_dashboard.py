"""deploy/grafana/zstci.json shows what /metrics tells, and nothing else."""

import itertools
import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.storage.tables import VersionRow
from tests.pictures import picture

ROOT = Path(__file__).parents[4]
README = (ROOT / "README.md").read_text()
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "zstci.json").read_text())
PANELS = DASHBOARD["panels"]
SHOWN = [panel for panel in PANELS if panel["type"] != "row"]


@pytest.fixture
def told(client, parts):
    """Sample names and their labels, from a service that has answered, refused and translated."""
    with parts.database.write() as session:
        row = session.get_one(VersionRow, 2)
        row.facts = {**row.facts, "translation": {"name": "linear", "residual": 0.5}}
    client.post("/v1/classify", content=picture(1)).raise_for_status()
    assert client.get("/v1/classes", headers={"Host": "somebody.example"}).status_code == 403
    families = list(text_string_to_metric_families(client.get("/metrics").text))
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def test_the_readme_lists_every_metric_with_its_labels(told):
    rows = re.findall(r"^\| `(zstci_\w+)` \| (.*?) ?\| .+ \|$", README, re.MULTILINE)
    listed = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    families = {re.sub(r"_(bucket|count|sum)$", "", name): labels for name, labels in told.items()}

    assert listed == {name: labels - {"le"} for name, labels in families.items() if not name.endswith("_created")}


def expressions():
    asked = [target["expr"] for panel in SHOWN for target in panel["targets"]]
    variables = [each["query"]["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    return [*asked, *variables, *(each["expr"] for each in DASHBOARD["annotations"]["list"])]


def named(expression: str) -> set[str]:
    return set(re.findall(r"\bzstci_[a-z_]+", expression))


def test_every_metric_of_the_dashboard_is_exported(told):
    assert {name for each in expressions() for name in named(each)} - set(told) == set()


def test_every_exported_metric_is_on_the_dashboard(told):
    def family(name: str) -> str:
        return re.sub(r"_(bucket|count|sum|created|total)$", "", name)

    shown = {family(name) for each in expressions() for name in named(each)}

    assert {family(name) for name in told} - shown == set()


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_asks_for_labels_that_exist(told, expression):
    ours = set().union(*(told[name] for name in named(expression)))
    asked = set(re.findall(r"([a-z]+)=~?\"", expression))
    grouped = {label for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(", ")}

    # Prometheus itself adds the instance.
    assert asked | grouped <= ours | {"instance"}
    for opening, closing in ("()", "[]", "{}"):
        assert expression.count(opening) == expression.count(closing)


def test_a_state_or_stage_that_is_asked_for_exists(client, told):
    text = client.get("/metrics").text
    for label, value in itertools.chain(*(re.findall(r'(state|stage)="([a-z]+)"', each) for each in expressions())):
        assert f'{label}="{value}"' in text


def test_panels_have_numbers_of_their_own_and_do_not_overlap():
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    taken = [
        (column, line)
        for place in (panel["gridPos"] for panel in PANELS)
        for column in range(place["x"], place["x"] + place["w"])
        for line in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(column for column, _ in taken) < 24
