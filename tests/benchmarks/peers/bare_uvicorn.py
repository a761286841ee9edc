"""The least that HTTP can cost in front of the engine: uvicorn and a pool of threads, with nothing of the service but
its decoding, net and search. No routing, no keys, no limits, no forms: what a request costs beyond this is ours.

    python -m tests.benchmarks.peers.bare_uvicorn VERSION_FOLDER PORT
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import uvicorn

from service.config import Settings
from service.serving.decode import decode_all
from service.serving.live import LiveModel
from service.serving.pool import cores, make_pool
from service.usecases.query import answer

_TOP_K = 5


def main() -> None:
    live, pool = LiveModel.load(Path(sys.argv[1]), version=1), make_pool(cores())
    max_pixels = Settings.model_fields["max_pixels"].default

    def classify(content: bytes) -> bytes:
        [found] = answer(live, {}, live.embed(decode_all([content], live.input, max_pixels)), _TOP_K)
        return json.dumps([vars(one) for one in found.predictions]).encode()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        parts, more = [], True
        while more:
            message = await receive()
            parts.append(message["body"])
            more = message["more_body"]
        content = await asyncio.get_running_loop().run_in_executor(pool, classify, b"".join(parts))
        headers = [(b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    # As `zstci api` runs it.
    port = int(sys.argv[2])
    uvicorn.run(app, port=port, log_config=None, access_log=False, proxy_headers=False, lifespan="off")


if __name__ == "__main__":
    main()
