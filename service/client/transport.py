"""Requests that are repeated where that is safe, and errors that say what to do."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from service.client.errors import ApiError
from service.errors import ServiceUnreachable
from zstci.errors import InvalidConfig

__all__ = ["Transport", "pause"]

_TRIES = 5
_LONGEST_PAUSE = 30.0  # seconds; a service that asks for more is asked again by its caller, not by us
_AGAIN = (429, 503)
_SAFE = ("GET", "HEAD")
# A proxy of the environment never leads to this machine.
_HERE: dict[str, httpx.BaseTransport | None] = {"all://127.0.0.1": None, "all://localhost": None, "all://[::1]": None}


class Transport:
    def __init__(self, url: str, key: str | None, timeout: float) -> None:
        if not url.startswith(("http://", "https://")):
            raise InvalidConfig(f"{url!r} is no address of a service; give one such as http://127.0.0.1:8000")
        self.url, self.timeout = url.rstrip("/"), timeout
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout, mounts=_HERE)

    def request(self, method: str, path: str, *, repeatable: bool | None = None, **options: Any) -> httpx.Response:
        """A good response, or an error. `repeatable`: asking twice does no more than asking once, so that a broken
        connection is tried again; by default true for GET alone. A service that says Retry-After has done nothing."""
        again = method in _SAFE if repeatable is None else repeatable
        for attempt in range(1, _TRIES + 1):
            try:
                response = self.http.request(method, path, **options)
            except httpx.TransportError as error:
                if attempt == _TRIES or not (again or isinstance(error, httpx.ConnectError)):
                    raise self.unreachable(error) from error
                time.sleep(pause(attempt))
                continue
            if response.is_success:
                return response
            wait = _retry_after(response)
            if attempt == _TRIES or wait is None:
                break
            time.sleep(wait)
        raise ApiError.of(response)

    def pages(self, path: str, **params: Any) -> Iterator[dict[str, Any]]:
        """Entries of a list, page by page."""
        while True:
            page = self.request("GET", path, params=_given(params)).json()
            yield from page["data"]
            if page["next_cursor"] is None:
                return
            params["cursor"] = page["next_cursor"]

    def unreachable(self, error: httpx.TransportError) -> ServiceUnreachable:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return ServiceUnreachable(f"no service at {self.url}; start it with: make serve (or zstci serve)")
        said = str(error) or type(error).__name__
        return ServiceUnreachable(f"the service at {self.url} stopped answering ({said}); its log may say why")


def pause(attempt: int) -> float:
    """Seconds before the next try: 0.1, 0.2, 0.4 ... 5."""
    return min(0.1 * 2 ** (attempt - 1), 5.0)


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds to wait, or None where asking again is no use or takes too long."""
    text = response.headers.get("Retry-After", "")
    if response.status_code not in _AGAIN or not text:
        return None
    if text.isdecimal():
        seconds = float(text)
    else:
        try:
            seconds = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):  # TypeError: a date without a zone
            return None
    return max(0.0, seconds) if seconds <= _LONGEST_PAUSE else None


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}
