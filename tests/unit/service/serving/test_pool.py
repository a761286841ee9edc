import threading

import faiss
import pytest
from threadpoolctl import threadpool_info

from service.errors import Busy
from service.serving.pool import Budget, Gate, cores, make_pool


def test_every_thread_computes_on_one_core():
    with make_pool(2) as pool:
        assert pool.submit(faiss.omp_get_max_threads).result() == 1
        found = pool.submit(threadpool_info).result()

    assert {library["num_threads"] for library in found if library["user_api"] == "blas"} == {1}


def test_0_threads_means_one_for_each_core():
    with make_pool(0) as pool:
        assert pool._max_workers == cores() >= 1


def test_a_pool_that_is_widened_runs_as_many_at_once_and_is_never_narrowed():
    with make_pool(1) as pool:
        pool.widen(3)
        pool.widen(1)
        together = threading.Barrier(3)
        waiting = [pool.submit(together.wait, 60) for _ in range(3)]

        assert sorted(one.result() for one in waiting) == [0, 1, 2]


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


def test_a_budget_refuses_what_would_not_fit_and_gets_back_what_was_taken():
    budget = Budget(10)
    budget.take(6)
    with pytest.raises(Busy, match="10 bytes") as refused:
        budget.take(5)
    assert refused.value.retry_after == 1
    budget.take(4)
    budget.give_back(10)

    assert budget.used == 0
