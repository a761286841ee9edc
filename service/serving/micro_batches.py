"""Queries of several threads computed together, where the device takes many images in the time of one."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from service.serving.engine import Pixels, Vectors

__all__ = ["IMAGES", "MicroBatches"]

IMAGES = 32
_SECONDS = 0.003


@dataclass(frozen=True)
class _Query:
    pixels: Pixels
    together: Callable[[Pixels], Vectors]
    since: float
    answer: Future[Vectors]


class MicroBatches:
    """Up to 32 images, or what came within 3 ms of the *first* one that waits: nobody waits longer for company."""

    def __init__(self, images: int = IMAGES, seconds: float = _SECONDS) -> None:
        waiting: queue.SimpleQueue[_Query | None] = queue.SimpleQueue()
        self._waiting = waiting
        # The thread knows the queue alone, so that it ends, and lets go of its net, when its version is dropped.
        weakref.finalize(self, waiting.put, None)
        # Started by the first query: on Linux it takes its priority from who starts it, and who loads a version has a
        # low one.
        self._thread = threading.Thread(target=_run, args=(waiting, images, seconds), daemon=True, name="micro-batches")
        self._starting = threading.Lock()

    def embed(self, pixels: Pixels, together: Callable[[Pixels], Vectors]) -> Vectors:
        """`together` is what embeds a whole batch, the same for every caller."""
        with self._starting:
            if self._thread.ident is None:
                self._thread.start()
        query = _Query(pixels, together, time.monotonic(), Future())
        self._waiting.put(query)
        return query.answer.result()


def _run(waiting: queue.SimpleQueue[_Query | None], images: int, seconds: float) -> None:
    while (first := waiting.get()) is not None:
        batch, over = [first], False
        while not over and sum(len(query.pixels) for query in batch) < images:
            try:
                another = waiting.get(timeout=max(0.0, first.since + seconds - time.monotonic()))
            except queue.Empty:
                break
            if another is None:
                waiting.put(None)  # after those that were asked before
                over = True
            else:
                batch.append(another)
        _compute(batch)
        del first, batch  # or the last ones would keep their net until the next come


def _compute(batch: list[_Query]) -> None:
    try:
        vectors = batch[0].together(np.concatenate([query.pixels for query in batch]))
    except BaseException as error:
        for query in batch:
            query.answer.set_exception(error)
        return
    begin = 0
    for query in batch:
        query.answer.set_result(vectors[begin : begin + len(query.pixels)])
        begin += len(query.pixels)
