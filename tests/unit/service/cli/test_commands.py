import json

import pytest
from typer.testing import CliRunner

from service.cli import app, main
from tests.pictures import TINY_OPTIONS, save_digits


@pytest.fixture
def zstci(store, monkeypatch):
    """Run a command on the store, and return what it printed."""
    monkeypatch.setenv("ZSTCI_HOME", str(store.home))

    def run(*arguments: object) -> str:
        result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    return run


def test_classes_as_a_table_and_as_json(zstci):
    assert zstci("classes").splitlines()[1].split() == ["digit-0", "6", "1"]
    body = json.loads(zstci("classes", "--json"))
    assert body["version"] == 2
    assert body["data"][0] == {"id": "digit-0", "name": "digit-0", "images": 6, "hops": 1}


def test_versions_are_listed_and_activated(zstci, store):
    assert [line[0] for line in zstci("versions").splitlines()[1:]] == ["*", " "]
    assert zstci("versions", "activate", 1) == "version 1 is active: 3 classes\n"
    assert store.active() == 1
    body = json.loads(zstci("versions", "--json"))
    assert (body["active"], [entry["number"] for entry in body["data"]]) == (1, [2, 1])
    assert json.loads(zstci("versions", "activate", 2, "--json")) == {"active": 2}


def test_classify_names_the_nearest_classes_of_every_file(zstci, tmp_path):
    folder = save_digits(tmp_path / "images", [1, 4], count=1)
    paths = sorted(folder.rglob("*.png"))
    body = json.loads(zstci("classify", *paths, "--top-k", 2, "--json"))

    assert [(entry["image"], entry["rank"]) for entry in body["data"]] == [(str(p), r) for p in paths for r in (1, 2)]
    assert len(zstci("classify", *paths).splitlines()) == 1 + 2 * 5


def test_evaluate_counts_overall_and_per_class(zstci, tmp_path):
    folder = save_digits(tmp_path / "images", [1, 4, 9], count=3)
    body = json.loads(zstci("evaluate", folder, "--json"))

    assert [(part["class_id"], part["images"]) for part in body["classes"]] == [("digit-1", 3), ("digit-4", 3)]
    assert (body["images"], body["unknown"]) == (6, ["digit-9"])
    assert f"overall {body['accuracy']:.1f} % of 6 images, version 2" in zstci("evaluate", folder)


def test_learn_adds_a_version(zstci, store, tmp_path):
    said = zstci("learn", save_digits(tmp_path / "b", [5, 6]), "--regularizer", "frozen", *TINY_OPTIONS)

    assert said.startswith("version 3 is active: 7 classes, 2 of them new, from 12 images in ")
    assert (store.active(), store.get(3).facts.regularizer) == (3, "frozen")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["learn", "nowhere"],
            "zstci: nowhere holds no class folders; lay the images out as ",
        ),
        (["versions", "activate", "9"], "zstci: no version 9; there are 1 to 2"),
        (["reproduce", "digits", "--regularizer", "lfw"], "zstci: unknown regularizer 'lfw'; choose one of: "),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(store, monkeypatch, tmp_path, capsys, arguments, said):
    monkeypatch.setenv("ZSTCI_HOME", str(store.home))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["zstci", *arguments])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(said)
