import faiss
import torch

from service.serving.pool import cores, make_pool


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
