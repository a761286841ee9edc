"""What people write first: FastAPI around the eager torch net. In .venv, which has all that it needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from fastapi import FastAPI, Request, UploadFile
from starlette.concurrency import run_in_threadpool

from tests.benchmarks.peers.model import Model
from zstci import Snapshot

__all__ = ["create_app"]


class _Eager:
    """The numpy model's decoding and search around the torch net."""

    def __init__(self) -> None:
        snapshot = Snapshot.load(Path(os.environ["PEER_BUNDLE"]), training=False)
        self._net = snapshot.net.eval()
        self._model = Model(Path(os.environ["PEER_FOLDER"]))

    @torch.inference_mode()
    def classify(self, content: bytes) -> dict[str, Any]:
        pixels = torch.from_numpy(self._model.decode(content)).unsqueeze(0)
        return self._model.nearest(self._net(pixels).numpy())[0]


def create_app() -> FastAPI:
    torch.set_num_threads(int(os.environ["PEER_TORCH_THREADS"]))
    app, eager = FastAPI(), _Eager()

    @app.post("/raw")
    async def raw(request: Request) -> dict[str, Any]:
        return await run_in_threadpool(eager.classify, await request.body())

    @app.post("/multipart")
    def multipart(files: UploadFile) -> dict[str, Any]:
        return eager.classify(files.file.read())

    return app
