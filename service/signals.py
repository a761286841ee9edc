"""SIGTERM and SIGINT as an event."""

from __future__ import annotations

import signal
import threading
from queue import SimpleQueue

__all__ = ["stop_event"]


def stop_event() -> threading.Event:
    """Set when this process is asked to end, by a thread: a handler runs in the midst of what the main thread does. If
    that is `Event.wait`, which holds a lock for moments, `Event.set` in the handler would wait for itself for ever."""
    asked: SimpleQueue[int] = SimpleQueue()  # whose `put` is made for handlers
    stop = threading.Event()

    def pass_on() -> None:
        while True:
            asked.get()
            stop.set()

    threading.Thread(target=pass_on, daemon=True, name="signals").start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda given, _: asked.put(given))
    return stop
