import pytest
import typer

from service.cli.output import echo_table, parse_settings


def test_values_are_json_where_they_can_be_and_text_else():
    given = ["train.epochs=5", "train.lr=1e-3", "train.weight=null", "translation.align=false", "net.weights=none"]

    assert parse_settings([*given, "net.input.mean=[0.5, 0.5, 0.5]", "net.backbone=a=b"]) == {
        "train.epochs": 5,
        "train.lr": 1e-3,
        "train.weight": None,
        "translation.align": False,
        "net.weights": "none",
        "net.input.mean": [0.5, 0.5, 0.5],
        "net.backbone": "a=b",
    }


@pytest.mark.parametrize("text", ["train.epochs", "=5", ""])
def test_what_is_no_assignment_is_refused(text):
    with pytest.raises(typer.BadParameter, match=r"train\.epochs=5"):
        parse_settings([text])


def test_a_table_is_as_wide_as_its_content_with_numbers_to_the_right(capsys):
    echo_table(("name", "n", "distance"), [("a", 5, 0.25), ("longer", 100, 12.0)])

    assert capsys.readouterr().out.splitlines() == [
        "name      n  distance",
        "a         5    0.2500",
        "longer  100   12.0000",
    ]


def test_a_table_without_rows_is_its_titles(capsys):
    echo_table(("name", "n"), [])

    assert capsys.readouterr().out == "name  n\n"
