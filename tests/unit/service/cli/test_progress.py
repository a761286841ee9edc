import io

import pytest

from service.cli.progress import CountBar, StageBars, UploadBar, details
from service.client import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


STEPS = [
    Progress(stage="embedding", progress=0.1),
    Progress(stage="fine_tuning", progress=0.4, eta_seconds=75.0, epoch=1, epochs=4, loss=0.5),
    Progress(stage="embedding", progress=0.0, attempt=2),
]


def draw() -> None:
    upload = UploadBar()
    for sent in (10, 60, 20, 100):
        upload(sent, 100)
    upload.close()
    bars = StageBars()
    for step in STEPS:
        bars(step)
    bars.close()
    count = CountBar("images", 10)
    count(4)
    count.close()


def test_nothing_is_drawn_where_there_is_no_terminal(capsys):
    draw()
    assert capsys.readouterr() == ("", "")


def test_bars_that_were_never_drawn_can_be_closed():
    UploadBar().close()
    StageBars().close()


def test_on_a_terminal_every_stage_leaves_its_line(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    draw()
    lines = [line.split("\r")[-1] for line in terminal.getvalue().split("\n")]

    assert lines[0].startswith("upload        100% |")
    assert lines[0].rstrip().endswith("the service looks at every image")
    assert lines[1].startswith("embedding      10% |")
    assert lines[2].startswith("fine tuning    40% |")
    assert lines[2].rstrip().endswith("epoch 1/4, loss 0.5000, 1 min 15 s to go")
    assert lines[3].startswith("embedding, attempt 2   0% |")


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (Progress(stage="embedding", progress=0), ""),
        (Progress(stage="embedding", progress=0, eta_seconds=0.2), "0 s to go"),
        (Progress(stage="fine_tuning", progress=0, epoch=None, epochs=5), "epoch 0/5"),
    ],
)
def test_only_what_is_known_is_told(step, said):
    assert details(step) == said
