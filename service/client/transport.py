"""Requests that are repeated where that is safe, and errors that say what to do."""

from __future__ import annotations

import time
from typing import Any, NamedTuple, TypeVar

import anyio
import anyio.to_thread
import httpx

from service.client.calls import Call, Request
from service.client.errors import ApiError
from service.client.patience import LONGEST_PAUSE, pause, retry_after
from service.errors import ServiceUnreachable
from zstci.errors import InvalidConfig

__all__ = ["AsyncTransport", "Service", "Transport"]

_AGAIN = (429, 503)
# A proxy of the environment never leads to this machine.
_HERE = dict.fromkeys(("all://127.0.0.1", "all://localhost", "all://[::1]"))

T = TypeVar("T")


class Service(NamedTuple):
    """Where a service is and how it is asked."""

    url: str
    key: str | None
    timeout: float  # seconds, for each sign of life
    tries: int

    @classmethod
    def at(cls, url: str, key: str | None, timeout: float, tries: int) -> Service:
        if not url.startswith(("http://", "https://")):
            raise InvalidConfig(f"{url!r} is no address of a service; give one such as http://127.0.0.1:8000")
        return cls(url.rstrip("/"), key, timeout, max(1, tries))

    @property
    def connection(self) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return {"base_url": self.url, "headers": headers, "timeout": self.timeout, "mounts": _HERE}

    def options(self, request: Request) -> dict[str, Any]:
        """A request in httpx's own words, except for its form."""
        timeout = httpx.Timeout(self.timeout, read=max(request.patience, self.timeout))
        return {
            "method": request.method,
            "url": request.path,
            "params": request.params,
            "headers": request.headers,
            "json": request.json,
            "files": request.files,
            "timeout": timeout,
        }

    def wait_after_error(self, request: Request, attempt: int, error: httpx.TransportError) -> float:
        """Seconds until the request may be sent again; raises where it may not."""
        if attempt >= self.tries or not (request.repeatable or isinstance(error, httpx.ConnectError)):
            raise self.unreachable(error) from error
        return pause(attempt)

    def wait_after(self, request: Request, response: httpx.Response, attempt: int) -> float:
        """The same after an answer that is none. A service that says Retry-After has done nothing."""
        error = ApiError.of(response)
        if response.status_code not in _AGAIN or attempt >= self.tries or request.busy_is_an_answer:
            raise error
        wait = retry_after(response)
        if wait is None and request.repeatable and _passes(error):
            wait = pause(attempt)
        if wait is None or wait > LONGEST_PAUSE:
            raise error
        return wait

    def unreachable(self, error: httpx.TransportError) -> ServiceUnreachable:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return ServiceUnreachable(f"no service at {self.url}; start it with: make serve (or zstci serve)")
        said = str(error) or type(error).__name__
        return ServiceUnreachable(f"the service at {self.url} stopped answering ({said}); its log may say why")


class Transport:
    def __init__(self, service: Service) -> None:
        self.service = service
        self.http = httpx.Client(**service.connection)

    def run(self, call: Call[T]) -> T:
        step = _first(call)
        while isinstance(step, Request):
            try:
                response = self.request(step)
            except ApiError as error:
                step = _refused(call, error)
            else:
                step = _answered(call, response)
        return step.value

    def request(self, request: Request) -> httpx.Response:
        attempt = 0
        while True:
            attempt += 1
            try:
                response = self.http.request(**self.service.options(request), content=request.form)
            except httpx.TransportError as error:
                time.sleep(self.service.wait_after_error(request, attempt, error))
                continue
            if response.is_success:
                return response
            time.sleep(self.service.wait_after(request, response, attempt))


class AsyncTransport:
    """The steps of a call may read files and parse much JSON, so they are taken in a thread."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.http = httpx.AsyncClient(**service.connection)

    async def run(self, call: Call[T]) -> T:
        step = await anyio.to_thread.run_sync(_first, call)
        while isinstance(step, Request):
            try:
                response = await self.request(step)
            except ApiError as error:
                step = _refused(call, error)
            else:
                step = await anyio.to_thread.run_sync(_answered, call, response)
        return step.value

    async def request(self, request: Request) -> httpx.Response:
        content = request.form.in_threads() if request.form is not None else None
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self.http.request(**self.service.options(request), content=content)
            except httpx.TransportError as error:
                await anyio.sleep(self.service.wait_after_error(request, attempt, error))
                continue
            if response.is_success:
                return response
            await anyio.sleep(self.service.wait_after(request, response, attempt))


class _Result(NamedTuple):
    value: Any


def _first(call: Call[Any]) -> Request | _Result:
    return _step(lambda: next(call))


def _answered(call: Call[Any], response: httpx.Response) -> Request | _Result:
    return _step(lambda: call.send(response))


def _refused(call: Call[Any], error: ApiError) -> Request | _Result:
    return _step(lambda: call.throw(error))


def _step(go: Any) -> Request | _Result:
    """The end of a generator is an exception, which cannot leave a thread."""
    try:
        request: Request = go()
    except StopIteration as done:
        return _Result(done.value)
    return request


def _passes(error: ApiError) -> bool:
    """By itself: what somebody must mend first, such as a service that has learnt nothing yet, is the same in a second.
    Of an error that has no class of its own, such as a proxy's, the best is hoped."""
    return type(error) is ApiError or error.retry_after is not None or error.status == httpx.codes.TOO_MANY_REQUESTS
