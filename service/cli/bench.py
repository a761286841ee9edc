"""zstci bench: what a running service answers under load. How it compares with its peers is `make bench`."""

from __future__ import annotations

import io
import itertools
import time
from collections import Counter
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.connect import Url, connect
from service.cli.output import AsJson, echo_facts, echo_json, say
from service.cli.progress import CountBar
from service.cli.query import name_images

if TYPE_CHECKING:
    from service.client import AsyncClient

__all__ = ["Load", "bench"]

_NOT_ONE = 1
_HERE = ("127.0.0.1", "localhost", "[::1]")

Images = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[IMG...]", help="Images to ask about (default: a drawn one)", exists=True, dir_okay=False),
]
Seconds = Annotated[float, typer.Option(min=0.1, max=3600, help="How long to ask")]
Clients = Annotated[int, typer.Option(min=1, max=256, help="How many ask at the same time, each without a pause")]


@dataclass
class Load:
    """What the clients saw. Nothing is asked twice, so what was refused shows."""

    elapsed: float = 0.0
    seconds: list[float] = field(default_factory=list)  # of every answer
    refused: Counter[str] = field(default_factory=Counter)  # by code
    versions: set[int] = field(default_factory=set)

    @property
    def per_second(self) -> float:
        return len(self.seconds) / self.elapsed

    def percentile(self, share: float) -> float | None:
        """In milliseconds: the time within which this share of all answers came."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None


def bench(
    images: Images = None, seconds: Seconds = 10.0, clients: Clients = 8, as_json: AsJson = False, url: Url = None
) -> None:
    """Ask a running service as fast as it answers: throughput, latency and refusals."""
    contents = [path.read_bytes() for path in images or []] or [_picture()]
    _check(contents, images, url)
    load = _ask(url, contents, seconds, clients)
    document = _document(load, clients)
    if as_json:
        echo_json(document)
    else:
        echo_facts({name.replace("_", " "): _text(value) for name, value in document.items()})
        if _is_here(url):
            say("The clients shared this machine's cores with the service.", err=True)
    if not load.seconds:
        raise typer.Exit(_NOT_ONE)


def _check(contents: list[bytes], images: list[Path] | None, url: str | None) -> None:
    """One query of each, patiently: a service that is away, knows no class or refuses an image says so at once."""
    from service.client import ApiError

    with connect(url) as client:
        try:
            client.classify(contents, 1)
        except ApiError as error:
            raise name_images(error, images) if images else error from None


def _ask(url: str | None, contents: list[bytes], seconds: float, clients: int) -> Load:
    import anyio

    from service.cli.connect import service_of
    from service.client import AsyncClient

    async def all_of_them() -> Load:
        load = Load()
        async with AsyncExitStack() as stack:
            # All made before the clock runs: the first one of a process takes a while.
            made = [await stack.enter_async_context(AsyncClient(*service_of(url), tries=1)) for _ in range(clients)]
            started = time.monotonic()
            bar = stack.enter_context(closing(CountBar("seconds", int(seconds))))
            async with anyio.create_task_group() as group:
                for number, client in enumerate(made):
                    group.start_soon(_keep_asking, client, _turned(contents, number), started + seconds, load)
                for _ in range(int(seconds)):
                    await anyio.sleep(1)
                    bar(1)
            load.elapsed = time.monotonic() - started
        return load

    return anyio.run(all_of_them)


async def _keep_asking(client: AsyncClient, contents: list[bytes], until: float, load: Load) -> None:
    """Once at least, so that a slow service is measured as well."""
    import anyio

    from service.client import ApiError
    from service.errors import ServiceUnreachable

    for content in itertools.cycle(contents):
        begun = time.monotonic()
        try:
            answer = await client.classify(content, 1)
        except (ApiError, ServiceUnreachable) as error:
            load.refused[error.code] += 1
            await anyio.sleep(0.01)  # or refusals would be all that is measured
        else:
            load.seconds.append(time.monotonic() - begun)
            load.versions.add(answer.version)
        if time.monotonic() >= until:
            return


def _turned(contents: list[bytes], number: int) -> list[bytes]:
    """Each client begins with another image."""
    first = number % len(contents)
    return contents[first:] + contents[:first]


def _document(load: Load, clients: int) -> dict[str, Any]:
    return {
        "clients": clients,
        "seconds": round(load.elapsed, 2),
        "answers": len(load.seconds),
        "answers_per_second": round(load.per_second, 1),
        "p50_ms": load.percentile(0.50),
        "p95_ms": load.percentile(0.95),
        "p99_ms": load.percentile(0.99),
        "slowest_ms": load.percentile(1.0),
        "refused": dict(load.refused),
        "versions": sorted(load.versions),
    }


def _text(value: object) -> object:
    match value:
        case float():
            return f"{value:.1f}"
        case dict():
            return ", ".join(f"{count} x {code}" for code, count in value.items())
        case list():
            return ", ".join(map(str, value))
    return value


def _is_here(url: str | None) -> bool:
    from service.cli.connect import service_of

    return any(f"//{name}" in service_of(url)[0] for name in _HERE)


def _picture() -> bytes:
    """As large as a photo from the web: decoding is a part of the work."""
    import numpy as np
    from PIL import Image

    coarse = np.random.default_rng(0).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(coarse).resize((640, 480), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()
