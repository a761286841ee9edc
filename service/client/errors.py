"""What the service answered when it did not do what was asked. `code` is stable: rely on it, not on the sentence."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import httpx

from service.client.models import UpdateEntry
from service.errors import ServiceError
from zstci.errors import ZstciError

__all__ = ["ApiError", "Fault", "UpdateCancelled", "UpdateFailed"]

_IMAGES = "/images/"


@dataclass(frozen=True)
class Fault:
    """One of several things that were wrong with a request."""

    pointer: str
    code: str
    detail: str

    @property
    def image(self) -> int | None:
        """Position of the image that this is about, if it is about one."""
        position = self.pointer.removeprefix(_IMAGES)
        return int(position) if self.pointer.startswith(_IMAGES) and position.isdecimal() else None


class ApiError(ServiceError):
    """A problem (RFC 9457) that the service answered with. `ApiError.of` makes those that have a class of their own in
    service/errors.py instances of it as well, so that `except ClassExists` works on both sides of the wire."""

    def __init__(
        self,
        detail: str,
        *,
        code: str,
        status: int,
        title: str = "",
        errors: Sequence[Fault] = (),
        request_id: str | None = None,
    ) -> None:
        Exception.__init__(self, detail)  # the class beside this one may want what only the service has
        self.detail, self.code, self.status, self.title = detail, code, status, title
        self.errors, self.request_id = tuple(errors), request_id

    @classmethod
    def of(cls, response: httpx.Response) -> ApiError:
        """The response must have been read."""
        problem = _problem(response)
        if problem is None:
            return _foreign(response)
        faults = [
            Fault(str(fault.get("pointer", "")), str(fault.get("code", "")), str(fault.get("detail", "")))
            for fault in problem.get("errors") or []
        ]
        return _kind(str(problem["code"]))(
            str(problem.get("detail") or problem.get("title") or response.reason_phrase),
            code=str(problem["code"]),
            status=response.status_code,
            title=str(problem.get("title", "")),
            errors=faults,
            request_id=problem.get("request_id"),
        )

    def behind(self, images: int) -> ApiError:
        """The same for a batch that `images` others went before, so that positions are those the caller knows."""
        faults = [
            fault if fault.image is None else replace(fault, pointer=f"{_IMAGES}{fault.image + images}")
            for fault in self.errors
        ]
        return type(self)(
            self.detail,
            code=self.code,
            status=self.status,
            title=self.title,
            errors=faults,
            request_id=self.request_id,
        )


class UpdateFailed(ServiceError):
    """An update that was waited for did not come to a good end. `code` is that of its failure."""

    def __init__(self, entry: UpdateEntry) -> None:
        self.entry = entry
        self.code = entry.error.code if entry.error else "update_failed"
        reason = entry.error.detail if entry.error else "the service gives no reason; its log has one"
        super().__init__(f"update {entry.id} failed: {reason}")


class UpdateCancelled(ServiceError):
    code = "update_cancelled"

    def __init__(self, entry: UpdateEntry) -> None:
        self.entry = entry
        instant = entry.instant_version
        left = "nothing has changed" if instant is None else f"its instant version {instant} stays"
        super().__init__(f"update {entry.id} was cancelled; {left}")


@functools.cache
def _kind(code: str) -> type[ApiError]:
    """The class that the service raised, with all that an ApiError knows."""
    kinds: list[type[ZstciError]] = [ZstciError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    known = [kind for kind in kinds if kind.__dict__.get("code") == code and kind is not ServiceError]
    if not known or issubclass(known[0], ApiError):
        return ApiError
    return type(known[0].__name__, (ApiError, known[0]), {})


def _problem(response: httpx.Response) -> dict[str, Any] | None:
    try:
        body = response.json()
    except ValueError:
        return None
    return body if isinstance(body, dict) and "code" in body else None


def _foreign(response: httpx.Response) -> ApiError:
    """Something in between answered, such as a proxy, or this is no zstci service."""
    said = " ".join(response.text.split())[:200] or "nothing more"
    return ApiError(
        f"{response.url} answered {response.status_code} {response.reason_phrase}, but not as zstci does: {said}",
        code=f"http_{response.status_code}",
        status=response.status_code,
        request_id=response.headers.get("X-Request-ID"),
    )
