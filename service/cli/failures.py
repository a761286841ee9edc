"""How an error ends a command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from service.cli.output import shown
from service.client import ApiError, UpdateCancelled, UpdateFailed
from service.errors import NoClassesYet, NoKeys, ServiceError, ServiceUnreachable, WorkerNameTaken
from zstci.errors import ZstciError

__all__ = ["as_document", "as_known", "describe", "exit_code"]

_FAULT, _REFUSED, _NOT_NOW = 1, 2, 3
_CODES: dict[type[ZstciError], int] = {
    UpdateFailed: 4,
    UpdateCancelled: 5,
    ServiceUnreachable: _NOT_NOW,
    NoKeys: _NOT_NOW,
    WorkerNameTaken: _NOT_NOW,
    NoClassesYet: _REFUSED,  # 503 to a load balancer; for people it is theirs to mend
}
_PASSING = (502, 503, 504, 507)
_MOST = 20  # faults that are listed
# Typer brings a click of its own by now, and exports of its errors only this one: here is what all of them are.
[_TYPED_WRONG] = [kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"]


class BadCommandLine(ZstciError):
    code = "bad_command_line"


def as_known(error: Exception) -> ZstciError | None:
    """An error that needs no traceback."""
    if isinstance(error, ZstciError):
        return error
    if not isinstance(error, _TYPED_WRONG):
        return None
    said, context = error.format_message().rstrip("."), getattr(error, "ctx", None)  # type: ignore[attr-defined]
    # Nothing to say: a command that shows its help instead of doing nothing has done so.
    return BadCommandLine(f"{said}; see: {context.command_path} --help" if said and context else said)


def exit_code(error: ZstciError) -> int:
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return code
    if isinstance(error, ServiceError) and error.status >= 500:
        return _NOT_NOW if error.status in _PASSING else _FAULT
    return _REFUSED


def as_document(error: ZstciError) -> dict[str, Any]:
    """The same for a program that asked for JSON."""
    faults = [vars(fault) for fault in error.errors] if isinstance(error, ApiError) else []
    return {"error": {"code": error.code, "detail": str(error), "errors": faults}}


def describe(error: ZstciError) -> Iterator[str]:
    """A line that says what to do, then what is wrong with each image, unless that line holds it already."""
    if str(error):
        yield shown(f"zstci: {error}")
    faults = [fault for fault in error.errors if fault.detail not in str(error)] if isinstance(error, ApiError) else []
    for fault in faults[:_MOST]:
        yield shown(f"  {fault.pointer.removeprefix('/upload/')}: {fault.detail}")
    if len(faults) > _MOST:
        yield f"  and {len(faults) - _MOST} more"
