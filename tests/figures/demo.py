"""`zstci demo` as anybody would run it: its plots beside this file, and what it prints into the README.

python -m tests.figures.demo
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

__all__ = ["put_into", "tell"]

_ROOT = Path(__file__).parents[2]
_BEGIN, _END = "<!-- Written by make figures: begin -->", "<!-- Written by make figures: end -->"


def tell() -> None:
    command = [sys.executable, "-m", "service.cli", "demo", "--out", "tests/figures"]
    told = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    readme = _ROOT / "README.md"
    readme.write_text(put_into(readme.read_text(), told))


def put_into(readme: str, told: str) -> str:
    """In place of what stood between the marks."""
    before, begin, rest = readme.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"the README has no {_BEGIN} ... {_END}; put them where the demo belongs")
    stories = told.partition("their services have ended")[0]
    lines = [f"    {line.rstrip()}".rstrip() for line in stories.rstrip().splitlines()]
    plots = [f"![The demo]({plot})" for plot in re.findall(r"^plot: (\S+)", told, re.MULTILINE)]
    return "\n".join([before + begin, "", *lines, "", "\n\n".join(plots), "", end + after])


if __name__ == "__main__":
    tell()
