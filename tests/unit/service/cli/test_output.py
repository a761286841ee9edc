import io

import pytest
import typer

from service.cli.output import bar, echo, echo_facts, echo_table, parse_settings


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


def test_facts_stand_in_two_columns_without_those_that_are_not_known(capsys):
    echo_facts({"version": 3, "accuracy": None, "id": "x", "note": ""})

    assert capsys.readouterr().out == "version  3\nid       x\n"


@pytest.mark.parametrize(
    ("share", "drawn"), [(0, ""), (1, "█" * 24), (0.5, "█" * 12), (1 / 48, "▌"), (-1, ""), (2, "█" * 24)]
)
def test_a_score_is_a_bar_to_an_eighth_of_a_character(share, drawn):
    assert bar(share) == drawn.ljust(24)


def test_a_terminal_without_blocks_gets_plain_characters(monkeypatch):
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))

    assert bar(0.5) == "#" * 12 + " " * 12


HOSTILE = "\x1b[31mred\x07 do\u202eg \udcff [bold]x[/bold]\nnext"
SPELT_OUT = r"\x1b[31mred\x07 do\u202eg \udcff [bold]x[/bold]\x0anext"


def test_what_would_steer_a_terminal_is_spelt_out_and_markup_is_text(capsys):
    echo(HOSTILE)
    echo_table(("class", "images"), [(HOSTILE, 3)])
    echo_facts({"classes": HOSTILE})

    line, _, row, facts = capsys.readouterr().out.splitlines()
    assert line == SPELT_OUT
    assert row == f"{SPELT_OUT}       3"
    assert facts == f"classes  {SPELT_OUT}"


def test_names_in_any_script_are_shown_as_they_are(capsys):
    echo("Ἀθηνᾶ 犬 👩\u200d🚀 \u05d0\u05d1")

    assert capsys.readouterr().out == "Ἀθηνᾶ 犬 👩\u200d🚀 \u05d0\u05d1\n"
