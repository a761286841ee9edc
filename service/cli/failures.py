"""How an error ends a command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from service.cli.output import shown
from service.client import ApiError, UpdateCancelled, UpdateFailed
from service.errors import ServiceUnreachable
from zstci.errors import ZstciError

__all__ = ["as_document", "describe", "exit_code"]

_REFUSED = 2
_CODES: dict[type[ZstciError], int] = {ServiceUnreachable: 3, UpdateFailed: 4, UpdateCancelled: 5}
_MOST = 20  # faults that are listed


def exit_code(error: ZstciError) -> int:
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), _REFUSED)


def as_document(error: ZstciError) -> dict[str, Any]:
    """The same for a program that asked for JSON."""
    faults = [vars(fault) for fault in error.errors] if isinstance(error, ApiError) else []
    return {"error": {"code": error.code, "detail": str(error), "errors": faults}}


def describe(error: ZstciError) -> Iterator[str]:
    """A line that says what to do, then what is wrong with each image, unless that line holds it already."""
    yield shown(f"zstci: {error}")
    faults = [fault for fault in error.errors if fault.detail not in str(error)] if isinstance(error, ApiError) else []
    for fault in faults[:_MOST]:
        yield shown(f"  {fault.pointer.removeprefix('/upload/')}: {fault.detail}")
    if len(faults) > _MOST:
        yield f"  and {len(faults) - _MOST} more"
