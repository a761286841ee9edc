"""zstci doctor: each check looks for itself, so that one that breaks does not hide the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import typer

from service.cli.doctor.findings import REINSTALL, Finding
from service.cli.output import AsJson, echo_json, say
from zstci.errors import ZstciError

__all__ = ["doctor"]

_SOMETHING_BAD = 1
_COLOURS = {"ok": typer.colors.GREEN, "warn": typer.colors.YELLOW, "bad": typer.colors.RED}


def doctor(as_json: AsJson = False) -> None:
    """Check all that the service needs on this machine, and say how to mend what is missing. Changes nothing."""
    if as_json:
        findings = list(_examine())
        echo_json({"ok": _well(findings), "checks": [vars(finding) for finding in findings]})
    else:
        findings = []
        for finding in _examine():  # one by one: some take seconds
            findings.append(finding)
            _echo(finding)
        _echo_end(findings)
    if not _well(findings):
        raise typer.Exit(_SOMETHING_BAD)


def _examine() -> Iterator[Finding]:
    from service.cli.doctor.machine import MACHINE
    from service.cli.doctor.service import SERVICE
    from service.config import load_settings

    for name, check in MACHINE.items():
        yield _looked(name, check)
    try:
        settings = load_settings()
    except ZstciError as error:
        yield Finding("settings", "bad", str(error), "correct or unset this variable; the README lists all of them")
        return
    for name, examination in SERVICE.items():
        yield _looked(name, examination, settings)


def _looked(name: str, check: Callable[..., Finding], *about: Any) -> Finding:
    try:
        return check(*about)
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        return Finding(name, "bad", said, "" if isinstance(error, ZstciError) else REINSTALL)


def _well(findings: Iterable[Finding]) -> bool:
    return all(finding.state != "bad" for finding in findings)


def _echo(finding: Finding) -> None:
    state = typer.style(finding.state.ljust(4), fg=_COLOURS[finding.state], bold=finding.state == "bad")
    typer.echo(state, nl=False)
    say(f"  {finding.name.ljust(13)}{finding.detail}")
    if finding.cure:
        say(f"{' ' * 19}-> {finding.cure}")


def _echo_end(findings: list[Finding]) -> None:
    bad, warned = (sum(finding.state == state for finding in findings) for state in ("bad", "warn"))
    if bad:
        say(f"{bad} of {len(findings)} must be mended before `zstci serve` can work")
    else:
        say(f"all is well{f', with {warned} to know about' if warned else ''}: start with zstci serve")
