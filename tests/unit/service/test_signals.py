"""A process that is asked to end does, whatever it was about to do."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

# Nearly always within the lock of the event: with `Event.set` in the handler it stands still within a second.
PROGRAM = """
import os
from service.signals import stop_event
stop = stop_event()
print("ready", flush=True)
for _ in range(20000):
    while not stop.wait(1e-6):
        pass
    stop.clear()
os._exit(0)
"""


def test_a_signal_in_the_midst_of_waiting_for_it_is_heard() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(signal.SIGTERM)
        process.kill()
    assert process.returncode == 0
