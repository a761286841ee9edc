from concurrent.futures import ThreadPoolExecutor

import faiss
import pytest
import torch

from service.errors import Busy
from service.serving.pool import Gate, cores, make_pool


def test_every_thread_computes_on_one_core():
    before = torch.get_num_threads()
    try:
        with make_pool(2) as pool:
            assert pool.submit(lambda: (torch.get_num_threads(), faiss.omp_get_max_threads())).result() == (1, 1)
    finally:
        torch.set_num_threads(before)


def test_0_threads_means_one_for_each_core():
    with make_pool(0) as pool:
        assert pool._max_workers == cores() >= 1


def test_a_gate_refuses_above_its_limit_and_lets_go():
    gate = Gate(2)
    with gate:
        with gate:
            assert gate.inside == 2
            with pytest.raises(Busy, match=r"2 queries wait or run.* try again") as refused, gate:
                pytest.fail("a third one came in")
            assert refused.value.retry_after == 1
            assert gate.inside == 2
        with gate:
            assert gate.inside == 2
    assert gate.inside == 0


def test_a_gate_lets_go_of_a_query_that_fails():
    gate = Gate(1)
    for _ in range(3):
        with pytest.raises(ValueError, match="bad"), gate:
            raise ValueError("bad")

    assert gate.inside == 0


def test_a_gate_counts_right_from_many_threads():
    gate = Gate(8)

    def pass_through(_: int) -> None:
        with gate:
            assert 1 <= gate.inside <= 8

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(pass_through, range(5000)))
    assert gate.inside == 0
