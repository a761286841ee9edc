"""Should the covariance travel with the net? What it does to `whitened`, by translator, in the committed reports.

    python -m tests.paper.transport

prints `whitened` minus `whitened-still` after the last task, and in brackets that of the mean over all tasks. The
reports were made with `--set translation.transport_covariance=true`, so that every translator carries it along.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def rows(report: dict[str, Any]) -> Iterator[str]:
    found = {(r["regularizer"], r["translator"], r["classifier"]): r for r in report["results"]}
    regularizers = [name for name in report["configs"] if name != "frozen"]
    yield f"{report['dataset']:<10}" + "".join(f"{name:>16}" for name in regularizers)
    for translator in dict.fromkeys(r["translator"] for r in report["results"]):
        if translator not in ("none", "oracle", "joint"):
            yield f"{translator:<10}" + "".join(f"{_gain(found, name, translator):>16}" for name in regularizers)


def _gain(found: dict[tuple[str, str, str], dict[str, Any]], regularizer: str, translator: str) -> str:
    moved, still = (found.get((regularizer, translator, name)) for name in ("whitened", "whitened-still"))
    if moved is None or still is None:
        return "-"
    return f"{moved['A'][-1] - still['A'][-1]:+.1f} ({moved['mean_A'] - still['mean_A']:+.1f})"


def main() -> None:
    for name in ("cifar100", "cub"):
        print("\n".join(rows(json.loads((RESULTS / name / "report.json").read_text()))), end="\n\n")


if __name__ == "__main__":
    main()
