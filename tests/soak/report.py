"""What a soak showed, as a table and a picture."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from tests.soak.soak import Outcome

__all__ = ["draw", "table"]


def table(outcome: Outcome) -> str:
    ledger = outcome.ledger
    updates = sum(count for name, count in ledger.did.items() if name.startswith("updates: "))
    ended = [sent.entry.get("state") for sent in ledger.sent.values()]
    latencies = np.array([seconds for _, seconds in ledger.latencies]) * 1000
    rows: list[tuple[str, object]] = [
        ("minutes", f"{outcome.seconds / 60:.1f}"),
        ("clients that ask", outcome.clients),
        ("requests of theirs", ledger.statuses.total()),
        ("their answers", ", ".join(f"{status}: {count}" for status, count in sorted(ledger.statuses.items()))),
        ("5xx other than a deliberate 503", outcome.server_errors),
        ("latency p50, p99, ms", f"{np.percentile(latencies, 50):.1f}, {np.percentile(latencies, 99):.1f}"),
        ("updates acknowledged", updates),
        ("of which", ", ".join(f"{state}: {ended.count(state)}" for state in sorted(set(map(str, ended))))),
        ("updates lost", sum(state is None for state in ended)),
        ("versions made", outcome.versions),
        ("swaps of the live version", outcome.swaps),
        ("quiet moments at which all was compared", outcome.rounds),
        ("answers compared with their version", len(ledger.answers)),
        ("things wrong", len(ledger.faults)),
    ]
    lines = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows), ""]
    lines += ["| process | | after warm-up | at the end | highest | per hour |", "|---|---|---|---|---|---|"]
    for trend in outcome.trends:
        values = f"{trend.begin:.1f} | {trend.end:.1f} | {trend.highest:.1f} | {trend.per_hour:+.1f}"
        lines.append(f"| {trend.process} | {trend.unit} | {values} |")
    lines += ["", "| done | times |", "|---|---|"]
    lines += [f"| {name} | {count} |" for name, count in sorted(ledger.did.items())]
    return "\n".join([*lines, *(f"\nWRONG: {fault}" for fault in ledger.faults[:20])])


def draw(outcome: Outcome, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (memory, files, latency) = pyplot.subplots(3, 1, figsize=(9, 9), sharex=True)
    for process in sorted({sample.process for sample in outcome.samples}):
        own = [sample for sample in outcome.samples if sample.process == process]
        memory.plot([s.at / 60 for s in own], [s.mebibytes for s in own], label=process)
        files.plot([s.at / 60 for s in own], [s.files for s in own], label=process)
    times = np.array([(at - outcome.begun) / 60 for at, _ in outcome.ledger.latencies])
    values = np.array([seconds * 1000 for _, seconds in outcome.ledger.latencies])
    edges = np.linspace(0, times.max(), 61)
    slots = [values[(times >= low) & (times < high)] for low, high in pairwise(edges)]
    for share in (50, 99):
        points = [np.percentile(slot, share) if len(slot) else np.nan for slot in slots]
        latency.plot(edges[:-1], points, label=f"p{share}")
    for axes, title in ((memory, "resident memory, MiB"), (files, "open files"), (latency, "latency, ms")):
        axes.set_ylabel(title)
        axes.legend()
        axes.grid(alpha=0.3)
    memory.set_ylim(bottom=0)
    files.set_ylim(bottom=0)
    latency.set_yscale("log")
    latency.set_xlabel("minutes")
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    pyplot.close(figure)
