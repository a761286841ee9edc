"""A cancel of the slowest there is on a CPU: every weight of the default net learns, and a batch takes many seconds."""

from __future__ import annotations

import time
from functools import partial

import pytest

from tests.pictures import archive
from tests.processes import Api, Service, wait_until

pytestmark = pytest.mark.slow

PROMISED, BUSY = 2.0, 3.0  # seconds, and so many times as long on a machine that does other things as well


def at_work(api: Api, update: str) -> bool:
    return bool(api.get(f"/v1/updates/{update}")["stage"] == "fine_tuning")


def test_a_cancel_in_the_middle_of_a_pass_of_the_default_net_ends_the_update(sqlite_service: Service) -> None:
    api = sqlite_service.serve()
    api.learn(archive([0, 1], count=3))
    for wait in (0.5, 4.0):  # on the way there, and further on
        options = {"regularizer": "lwf", "trainable": "all", "epochs": "50"}
        update = api.add(archive(range(2, 6), count=9), **options)
        wait_until(partial(at_work, api, update))
        time.sleep(wait)
        asked = time.monotonic()
        api.post(f"/v1/updates/{update}/cancel", 202)
        entry = api.ended(update)
        seconds = time.monotonic() - asked

        print(f"cancelled {seconds:.2f} s after the POST")  # with pytest -s
        assert (entry["state"], entry["stage"]) == ("cancelled", "fine_tuning")
        assert seconds < PROMISED * BUSY
        assert sqlite_service.images_left() == []
