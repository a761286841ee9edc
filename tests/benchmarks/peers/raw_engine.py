"""The limit: decode, embed and search as the service does, by its own functions, without a server around them.

    python -m tests.benchmarks.peers.raw_engine VERSION_FOLDER IMAGE

Each line on standard input, `THREADS SECONDS`, is answered by a line of JSON: images, seconds, CPU seconds.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from service.config import Settings
from service.serving.decode import decode_all
from service.serving.live import LiveModel
from service.serving.pool import cores, make_pool
from service.usecases.query import answer

_TOP_K = 5


def main() -> None:
    folder, image = map(Path, sys.argv[1:])
    live, content = LiveModel.load(folder, version=1), image.read_bytes()
    max_pixels = Settings.model_fields["max_pixels"].default

    def classify() -> None:
        answer(live, {}, live.embed(decode_all([content], live.input, max_pixels)), _TOP_K)

    def classify_until(deadline: float) -> int:
        images = 0
        while time.monotonic() < deadline:
            classify()
            images += 1
        return images

    def lap(pool: ThreadPoolExecutor, threads: int, seconds: float) -> dict[str, float]:
        begun, cpu = time.monotonic(), time.process_time()
        images = sum(pool.map(classify_until, [begun + seconds] * threads))
        return {"images": images, "seconds": time.monotonic() - begun, "cpu": time.process_time() - cpu}

    pool = make_pool(cores())
    print(flush=True)  # ready
    for line in sys.stdin:
        threads, seconds = line.split()
        print(json.dumps(lap(pool, int(threads), float(seconds))), flush=True)


if __name__ == "__main__":
    main()
