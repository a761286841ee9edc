"""Signs of life, and an end to work that hangs. In a process of its own, because that is what ends."""

import subprocess
import sys
import textwrap
from typing import cast

from service.storage.updates import UpdateStore
from service.usecases.pulse import HUNG, Pulse


class Beats:
    def __init__(self):
        self.seen = []

    def heartbeat(self, update_id, attempt):
        self.seen.append((update_id, attempt))


def test_a_sign_names_its_attempt(bench):
    update = bench.parts.updates.begin(bench.submit([0, 1]).id)
    beats = Beats()

    Pulse(cast(UpdateStore, beats), bench.settings)._beat(update)
    assert beats.seen == [(update.id, 1)]


def test_the_sign_of_an_attempt_that_is_over_does_not_count(bench):
    update = bench.submit([0, 1])
    bench.parts.updates.begin(update.id)
    bench.parts.updates.begin(update.id)
    before = bench.parts.updates.abandoned(-1.0)
    assert before == [update.id]

    bench.parts.updates.heartbeat(update.id, 1)
    assert bench.parts.updates.abandoned(1e-6) == [update.id]


def run(moves):
    """The exit code of a process whose work moves on for two seconds, or hangs for a minute."""
    program = f"""
    import time
    from types import SimpleNamespace
    from service.usecases.pulse import Pulse

    updates = SimpleNamespace(heartbeat=lambda *_: None)
    pulse = Pulse(updates, SimpleNamespace(lease_seconds=60.0, stall_seconds=3.0))
    with pulse.beating(SimpleNamespace(id="u", attempt=1)):
        for _ in range({20 if moves else 600}):
            time.sleep(0.1)
            if {moves}:
                pulse.move()
    """
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=60, check=False).returncode


def test_a_process_whose_work_hangs_ends():
    assert run(moves=False) == HUNG


def test_a_process_whose_work_gets_on_does_not():
    assert run(moves=True) == 0
