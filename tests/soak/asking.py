"""Clients that ask without end: right and wrong questions, raw and as forms, of the newest and of older versions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from random import Random

import httpx

from tests.pictures import picture
from tests.soak.ledger import Answered, Ledger

__all__ = ["Asker", "is_deliberate"]

_PATHS = ("/v1/classify", "/v1/search", "/v1/embeddings")
_BAD: list[tuple[bytes, dict[str, str]]] = [
    (b"", {}),
    (b"no image at all", {}),
    (picture(3)[:50], {"Content-Type": "image/png"}),
    (b"<svg xmlns='http://www.w3.org/2000/svg'/>", {"Content-Type": "image/svg+xml"}),
    (b"{}", {"Content-Type": "application/json"}),
    (b"--x\r\nbroken", {"Content-Type": "multipart/form-data; boundary=x"}),
    (b"x" * 300_000, {}),
]
_REFUSED = (400, 413, 415, 422)


def is_deliberate(response: httpx.Response) -> bool:
    return response.status_code == 503 and int(response.headers.get("Retry-After", "0")) > 0


class Asker(threading.Thread):
    def __init__(self, url: str, ledger: Ledger, stop: threading.Event, seed: int) -> None:
        super().__init__(name=f"asker-{seed}", daemon=True)
        self._url, self._ledger, self._stop_asking, self._random = url, ledger, stop, Random(seed)

    def run(self) -> None:
        ways: list[Callable[[httpx.Client], None]] = [*[self._raw] * 4, *[self._form] * 2, *[self._all_classes] * 2]
        ways += [self._older, self._bad, self._list]
        with httpx.Client(base_url=self._url, timeout=60) as http:
            while not self._stop_asking.wait(self._random.random() * 0.1):
                try:
                    self._random.choice(ways)(http)
                except Exception as error:
                    self._ledger.fault(f"asker: {type(error).__name__}: {error}")

    def _image(self) -> bytes:
        return picture(self._random.randrange(10), self._random.randrange(60))

    def _raw(self, http: httpx.Client) -> None:
        self._good(http, self._random.choice(_PATHS), content=self._image())

    def _form(self, http: httpx.Client) -> None:
        files = [("files", (f"{i}.png", self._image())) for i in range(self._random.randint(1, 4))]
        self._good(http, self._random.choice(_PATHS), files=files)

    def _all_classes(self, http: httpx.Client) -> None:
        response = self._good(http, "/v1/classify?top_k=1000", content=self._image())
        if response is not None:
            [found] = response.json()["data"]
            self._remember(response, frozenset(p["class_id"] for p in found["predictions"]))

    def _older(self, http: httpx.Client) -> None:
        version = self._random.randint(1, 40)
        response = self._ask(http, f"/v1/classify?version={version}", (200, 404, 409), content=self._image())
        if response.status_code == 200 and response.headers["X-Model-Version"] != str(version):
            self._ledger.fault(f"version {version} was asked, {response.headers['X-Model-Version']} answered")

    def _bad(self, http: httpx.Client) -> None:
        content, headers = self._random.choice(_BAD)
        self._ask(http, self._random.choice(_PATHS), _REFUSED, content=content, headers=headers)

    def _list(self, http: httpx.Client) -> None:
        path = self._random.choice(["/v1/classes", "/v1/versions", "/v1/updates", "/metrics", "/healthz"])
        begun = time.monotonic()
        response = http.get(path)
        self._judge(f"GET {path}", response, (200,), begun)

    def _good(self, http: httpx.Client, path: str, **how: object) -> httpx.Response | None:
        response = self._ask(http, path, (200,), **how)
        if response.status_code != 200:
            return None
        body = response.json()
        named = {entry["version"] for entry in body["data"]} if isinstance(body["data"][0], dict) else {body["version"]}
        if named != {int(response.headers["X-Model-Version"])}:
            self._ledger.fault(f"{path}: header and body name two versions, {named}")
        self._remember(response, None)
        return response

    def _remember(self, response: httpx.Response, ids: frozenset[str] | None) -> None:
        answered = Answered(int(response.headers["X-Model-Version"]), time.time(), ids)
        with self._ledger.lock:
            self._ledger.answers.append(answered)

    def _ask(self, http: httpx.Client, path: str, expected: tuple[int, ...], **how: object) -> httpx.Response:
        begun = time.monotonic()
        response = http.post(path, **how)  # type: ignore[arg-type]
        self._judge(path, response, expected, begun)
        return response

    def _judge(self, path: str, response: httpx.Response, expected: tuple[int, ...], begun: float) -> None:
        self._ledger.asked(response.status_code, time.monotonic() - begun)
        if response.status_code not in expected and not is_deliberate(response):
            self._ledger.fault(f"{path} answers {response.status_code}: {response.text}")
