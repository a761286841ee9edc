"""On the CPU here: what the batches are made of does not depend on the device that computes them."""

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from service.serving.engine import Pixels, Vectors
from service.serving.micro_batches import MicroBatches


def images(*values: int) -> Pixels:
    return np.array(values, dtype=np.uint8).reshape(-1, 1, 1, 1)


class Recorder:
    """Embeds an image as its own value, and remembers which came together."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.sizes: list[int] = []
        self._seconds = seconds

    def __call__(self, pixels: Pixels) -> Vectors:
        self.sizes.append(len(pixels))
        time.sleep(self._seconds)
        return pixels.reshape(len(pixels), 1).astype(np.float32)


def test_everybody_gets_the_answer_to_their_own_images_whoever_asks_beside_them():
    together, batches = Recorder(0.002), MicroBatches(seconds=0.01)

    def ask(number: int) -> bool:
        mine = images(*range(number, number + number % 3 + 1))
        return np.array_equal(batches.embed(mine, together), mine.reshape(-1, 1))

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(200)))
    assert max(together.sizes) > 1
    assert sum(together.sizes) == sum(number % 3 + 1 for number in range(200))


def test_a_full_batch_does_not_wait():
    together, batches = Recorder(), MicroBatches(images=4, seconds=3600)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: batches.embed(images(number), together), range(4)))

    assert together.sizes == [4]


def test_who_comes_alone_is_answered_alone():
    together = Recorder()
    MicroBatches(seconds=0.001).embed(images(1, 2), together)

    assert together.sizes == [2]


def test_an_error_reaches_everybody_in_the_batch_and_the_next_batch_runs():
    batches = MicroBatches(images=2, seconds=3600)

    def broken(pixels: Pixels) -> Vectors:
        raise RuntimeError("the device is gone")

    def ask(number: int) -> None:
        with pytest.raises(RuntimeError, match="the device is gone"):
            batches.embed(images(number), broken)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(ask, range(2)))
    assert batches.embed(images(3, 4), Recorder()).tolist() == [[3.0], [4.0]]


def test_the_thread_ends_when_its_version_is_dropped():
    def alive() -> int:
        return sum(thread.name == "micro-batches" for thread in threading.enumerate())

    before, batches = alive(), MicroBatches()
    assert alive() == before, "who loads a version has a low priority, and would hand it on"
    batches.embed(images(1), Recorder())
    assert alive() == before + 1
    del batches
    gc.collect()

    deadline = time.monotonic() + 30
    while alive() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert alive() == before
