"""BentoML. `Path` is its type for a file: a raw body and a form both end up in a temporary file that the API reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import bentoml  # type: ignore[import-not-found,unused-ignore]

from tests.benchmarks.peers.model import from_environment


@bentoml.service(  # type: ignore[untyped-decorator,unused-ignore]
    workers=int(os.environ["PEER_WORKERS"]),
    threads=int(os.environ["PEER_THREADS"]),
    traffic={"timeout": 60},
    logging={"access": {"enabled": False}},
    metrics={"enabled": os.environ.get("PEER_METRICS", "1") == "1"},
)
class Peer:
    def __init__(self) -> None:
        self.model = from_environment()

    @bentoml.api(route="/raw")  # type: ignore[untyped-decorator,unused-ignore]
    def raw(self, content: Path, /) -> dict[str, Any]:
        return self.model.classify([self.model.decode(content.read_bytes())])[0]

    @bentoml.api(route="/multipart")  # type: ignore[untyped-decorator,unused-ignore]
    def multipart(self, files: Path) -> dict[str, Any]:
        return self.model.classify([self.model.decode(files.read_bytes())])[0]
