import io
import re

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
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    draw()
    lines = left_on(terminal.getvalue())

    assert [" ".join(re.sub("[━╸╺]+|[0-9]+:[0-9:]+|[0-9.]+ [a-zA-Z]+/s|[?]", "", line).split()) for line in lines] == [
        "upload 100% 100/100 bytes the service looks at every image",
        "embedding 10%",
        "fine tuning 40% epoch 1/4, loss 0.5000, 1 min 15 s to go",
        "embedding, attempt 2 0%",
    ]


def left_on(written: str) -> list[str]:
    """What somebody sees at the end: lines are written over, and some are erased."""
    lines, at = [""], 0
    for up, erase, newline, text in re.findall(
        r"\x1b\[(1)A|\x1b\[(2)K|(\n)|([^\x1b\n\r]+|\x1b\[[^AK]*?[a-zA-Z])", written
    ):
        if up:
            at -= 1
        elif erase:
            lines[at] = ""
        elif newline:
            at += 1
            lines += [""] * (at + 1 - len(lines))
        elif not text.startswith("\x1b"):
            lines[at] += text
    return [line for line in lines if line.strip()]


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
