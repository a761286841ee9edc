"""Threads that compute queries, and the gate before them. The event loop only reads and writes sockets."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import faiss
from threadpoolctl import threadpool_limits

from service.errors import Busy

__all__ = ["Budget", "Gate", "Pool", "cores", "make_pool"]


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Pool(ThreadPoolExecutor):
    def widen(self, threads: int) -> None:
        """Where a GPU computes, a thread only waits in company; with one for each core no batch would be larger. They
        start when they are needed, so that more are allowed is all there is to do."""
        self._max_workers = max(self._max_workers, threads)


def make_pool(threads: int) -> Pool:
    """Queries side by side, each on one core: faster in sum than one query on all cores, and no thread ever waits for
    a core that another one of ours holds."""
    # For the whole process: one vector through a whitening matrix takes 0.1 ms, but 8 ms where two BLAS threads wait
    # for each other on two cores.
    threadpool_limits(1, user_api="blas")
    return Pool(threads or cores(), thread_name_prefix="query", initializer=_on_one_core)


def _on_one_core() -> None:
    faiss.omp_set_num_threads(1)


class Gate:
    """`with gate:` around all of a request. One that would only wait behind too many others is told so at once.

    For the event loop alone, so that no lock is on the way of a query."""

    def __init__(self, limit: int, what: str = "queries") -> None:
        self.limit, self.what = limit, what
        self._inside = 0

    @property
    def inside(self) -> int:
        """How many wait or run."""
        return self._inside

    def __enter__(self) -> None:
        if self._inside >= self.limit:
            raise Busy(f"{self._inside} {self.what} wait or run, and no more are taken; try again soon")
        self._inside += 1

    def __exit__(self, *_: object) -> None:
        self._inside -= 1


class Budget:
    """Bytes that all queries together may hold. Counted as they come, for what a client announces costs nothing."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def take(self, count: int) -> None:
        if self.used + count > self.limit:
            raise Busy(f"the bodies of other queries fill the {self.limit} bytes there are for them; try again soon")
        self.used += count

    def give_back(self, count: int) -> None:
        self.used -= count
