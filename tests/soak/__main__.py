"""`make soak`: writes results.md and results.png beside this file. Exit code 1: something was wrong."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.processes import Service
from tests.soak.report import draw, table
from tests.soak.soak import soak
from tests.soak.test_overload import overload

HERE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE, help="folder of results.md and results.png")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder) / "home", f"sqlite:///{folder}/zstci.db")
        try:
            outcome = soak(service, 60 * options.minutes, options.clients, options.seed)
        finally:
            service.end()
    with tempfile.TemporaryDirectory() as folder:
        try:
            overloaded = overload(Path(folder))
        except AssertionError as error:
            overloaded = "not as it must be"
            outcome.ledger.fault(f"overload: {error}")
    shown = f"{table(outcome)}\n\n## Ten times too many queries\n\n{overloaded}"
    command = f"make soak MINUTES={options.minutes:g} ARGS='--clients {options.clients} --seed {options.seed}'"
    text = f"# Soak\n\n`{command}`, SQLite, one API process and one worker.\n\n{shown}\n\n![Over time](results.png)\n"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.md").write_text(text, encoding="utf-8")
    draw(outcome, options.out / "results.png")
    print(shown)
    return 1 if outcome.ledger.faults else 0


if __name__ == "__main__":
    sys.exit(main())
