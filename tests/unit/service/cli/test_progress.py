import os
import signal

import pytest

from service.cli.progress import StageBars, stop_on_interrupt
from zstci import Progress


def test_the_first_interrupt_asks_to_stop_and_the_second_ends_at_once():
    before = signal.getsignal(signal.SIGINT)
    with stop_on_interrupt() as should_stop:
        assert not should_stop()
        os.kill(os.getpid(), signal.SIGINT)
        assert should_stop()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_bars_take_any_order_of_stages_and_write_nothing_where_there_is_no_terminal(capsys):
    bars = StageBars()
    for stage, fraction in [("embedding", 0.5), ("embedding", 1.0), ("fine_tuning", 0.5), ("embedding", 0.2)]:
        bars(Progress(stage, fraction, 1, 2, loss=0.5 if stage == "fine_tuning" else None))
    bars.close()

    assert capsys.readouterr().err == ""
