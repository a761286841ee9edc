"""A stop that is heard in the middle of long work: between the layers of a net, on the way there and on the way back,
and beside one long computation. `look` is called now and then, and raises to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn

__all__ = ["LOOK_SECONDS", "aside", "await_result", "look_within", "seldom", "waiting"]

LOOK_SECONDS = 0.1

Value = TypeVar("Value")
Look = Callable[[], None]
_here = threading.local()
_one_aside = threading.Lock()  # what was stopped goes on to its end: the next waits, or memory would be needed twice


@contextmanager
def look_within(look: Look, *nets: nn.Module) -> Iterator[None]:
    """Passes of these nets, forward and backward, call `look` after every layer. Results stay the same bit for bit.

    Only passes of this thread: snapshots share their trunk, and another thread may be serving with it.
    """
    here = threading.get_ident()

    def after_layer(layer: nn.Module, inputs: object, output: object) -> None:
        if threading.get_ident() != here:
            return
        look()
        if isinstance(output, Tensor) and output.requires_grad:
            output.register_hook(before_gradient)

    def before_gradient(gradient: Tensor) -> None:
        look()

    # Layers without parts: a block's own hook would come after all of them.
    layers = {layer for net in nets for layer in net.modules() if not any(True for _ in layer.children())}
    handles = [layer.register_forward_hook(after_layer) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def aside(work: Callable[[], Value], look: Look) -> Value:
    """The result of `work`, which has no place inside to look from. A thread computes it with the settings of this
    one; who stops does not wait for it. So it may change nothing: its result alone counts."""
    gradients, threads = torch.is_grad_enabled(), torch.get_num_threads()
    result: Future[Value] = Future()

    def compute() -> None:
        torch.set_num_threads(threads)  # each thread has its own number, and rounding depends on it
        try:
            with _one_aside, torch.set_grad_enabled(gradients):
                result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=compute, name="aside").start()
    return await_result(result, look)


def await_result(result: Future[Value], look: Look) -> Value:
    # Not `result(timeout)`: the work may be done between its TimeoutError and the question whose error that was.
    while not wait([result], LOOK_SECONDS).done:
        _here.waiting = True
        try:
            look()
        finally:
            _here.waiting = False
    return result.result()


def waiting() -> bool:
    """Whether this look comes from a wait: then it says nothing about whether the work gets on."""
    return getattr(_here, "waiting", False)


def seldom(look: Look, seconds: float = LOOK_SECONDS) -> Look:
    """`look`, but not again before so many seconds have passed: layers of a tiny net take microseconds."""
    last = time.monotonic()

    def looked() -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= seconds:
            last = now
            look()

    return looked
