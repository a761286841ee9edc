"""The README's reference of the command line, and what every command has."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import service.cli
from service.cli import app

README = (Path(__file__).parents[4] / "README.md").read_text()
REFERENCE = README.partition("## Command line\n")[2].partition("\n## ")[0]
ROWS = {row.partition("`")[2].partition("`")[0]: row for row in REFERENCE.splitlines() if row.startswith("| `zstci")}
RUN_FOR_EVER = {"zstci serve", "zstci api", "zstci worker"}  # they log, and have no result
EVERYWHERE = {"--json", "--url", "--help"}


def commands() -> Iterator[tuple[str, typer.core.TyperCommand]]:
    """Every command by its whole name; a group that lists something is one itself."""
    root = typer.main.get_command(app)

    def below(name: str, command) -> Iterator[tuple[str, typer.core.TyperCommand]]:
        inner = getattr(command, "commands", {})
        if not inner or (command.invoke_without_command and name != "zstci"):
            yield name, command
        for word, one in inner.items():
            yield from below(f"{name} {word}", one)

    yield from below("zstci", root)


ALL = dict(commands())


def row_of(name: str) -> str:
    [found] = [row for usage, row in ROWS.items() if re.sub(r" [A-Z\[].*", "", usage) == name]
    return found


def options(command) -> set[str]:
    return {
        name
        for param in command.params
        if not getattr(param, "hidden", False)
        for name in param.opts
        if name[:2] == "--"
    }


def test_the_commands_are_found():
    assert {"zstci serve", "zstci demo", "zstci classes", "zstci classes rename", "zstci bench"} <= set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_every_command_and_its_options_are_in_the_readme(name):
    row = row_of(name)
    missing = {option for option in options(ALL[name]) - EVERYWHERE if f"`{option}`" not in row}
    assert missing == set()


@pytest.mark.parametrize("usage", ROWS)
def test_the_readme_names_no_command_or_option_that_is_not_there(usage):
    command = ALL[re.sub(r" [A-Z\[].*", "", usage)]
    assert set(re.findall(r"`(--[a-z-]+)`", ROWS[usage])) <= options(command)


@pytest.mark.parametrize("name", ALL)
def test_every_command_with_a_result_can_give_it_as_json(name):
    assert ("--json" in options(ALL[name])) == (name not in RUN_FOR_EVER)


@pytest.mark.parametrize("name", ALL)
def test_every_command_and_option_says_what_it_is_for(name):
    assert ALL[name].help
    assert [param.name for param in ALL[name].params if not getattr(param, "help", None)] == []


@pytest.mark.parametrize("name", ALL)
def test_help_is_exit_code_0(name):
    result = CliRunner().invoke(app, [*name.split()[1:], "--help"])
    assert (result.exit_code, "Usage" in result.stdout) == (0, True)


def test_the_exit_codes_of_the_readme_are_those_of_the_program():
    documented = set(re.findall(r"^\| (\d+) \|", REFERENCE, re.MULTILINE))
    assert documented == set(re.findall(r"^(\d+)  ", str(service.cli.__doc__), re.MULTILINE))


def test_the_version_is_shown():
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, re.fullmatch(r"zstci \d+\.\d+\.\d+\n", result.stdout) is not None) == (0, True)


def test_a_mistyped_command_is_exit_code_2():
    assert CliRunner().invoke(app, ["clasify"]).exit_code == 2


def completed(words: str) -> list[str]:
    """What a shell would be offered."""
    environment = {
        "_ZSTCI_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    command = [sys.executable, "-c", "from service.cli import app; app(prog_name='zstci')"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.split()


def test_the_shell_completes_commands_and_names_of_strategies():
    assert completed("zstci do") == ["doctor"]
    assert completed("zstci add birds --regularizer l") == ["lwf"]
    assert "paper-cub" in completed("zstci add birds --preset ")
