"""The figures of serving as tables for readers and bars for a glance."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # before pyplot: no screen is needed

from matplotlib import pyplot as plt

__all__ = ["write_serving"]

Found = dict[str, Any]


def write_serving(folder: Path, content: Found) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = json.loads(json.dumps(content))  # numbers as keys become text, now as later
    (folder / "serving.json").write_text(json.dumps(content, indent=1) + "\n")
    writers = {"throughput": _throughput, "threads": _threads, "update": _update, "startup": _startup}
    parts = [writers[name](content[name]["found"]) for name in writers if name in content]
    machines = [f"- {name}: {content[name]['about']}" for name in writers if name in content]
    page = (
        "# Benchmark: serving\n\nMade by `make bench`. Medians over rounds in which everybody had a turn; ratios are "
    )
    page += "taken within a round. CPU seconds are those of the server and all its processes.\n\n"
    (folder / "serving.md").write_text(page + "\n".join([*parts, "![serving](serving.png)\n", *machines]) + "\n")
    if "throughput" in content:
        _plot(folder / "serving.png", content["throughput"]["found"])


def _throughput(found: Found) -> str:
    lines = [
        (kind, clients, name, *_cells(row))
        for kind, by_clients in found["rows"].items()
        for clients, rows in by_clients.items()
        for name, row in rows.items()
    ]
    head = (
        "body",
        "clients",
        "",
        "answers/s",
        "of the limit",
        "CPU each",
        "CPU efficiency",
        "p50",
        "p99",
        "p99/p50",
        "failed",
    )
    trials = "\n".join(
        f"- {name}: {found['configurations'][name]}, chosen of {tried}" for name, tried in found["trials"].items()
    )
    return (
        "## Beside others\n\nCPU efficiency: CPU seconds of the bare engine for an image (decode, net, search) over "
        "those of the server for a request. Targets for ours at 8 and 32 clients: 0.90 raw, 0.85 multipart, p99/p50 at "
        f"most 1.5.\n\n{_table(head, lines)}\n\nConfigurations (answers/s at 8 clients):\n\n{trials}\n"
    )


def _cells(row: Found) -> tuple[str, ...]:
    latency = [f"{1000 * row[name]:.1f} ms" if name in row else "" for name in ("p50", "p99")]
    return (
        f"{row['rate']:.1f}",
        f"{row['of_limit']:.2f}",
        f"{1000 * row['cpu']:.1f} ms",
        f"{row['efficiency']:.3f}",
        *latency,
        f"{row['tail']:.2f}" if "tail" in row else "",
        f"{row['failed']:.0f}",
    )


def _threads(found: Found) -> str:
    lines = [
        (
            kind,
            name,
            f"{row['computing']:.2f} ms",
            f"{row['event loop']:.2f} ms",
            f"{_sum(rows['raw engine']) / _sum(row):.3f}",
        )
        for kind, rows in found.items()
        for name, row in rows.items()
    ]
    head = ("body", "", "threads that compute", "event loop", "efficiency")
    return (
        "## Where the CPU time of a request goes\n\nEight clients, CPU time of each request. `bare uvicorn` is the "
        "engine behind a uvicorn that reads the body and does nothing else: no routing, keys, limits or forms. What "
        "ours takes beyond it is ours; what it takes beyond the raw engine is the price of HTTP from Python: the "
        "sockets, and threads that lose caches and the interpreter to the event loop.\n\n"
        f"{_table(head, lines)}\n"
    )


def _sum(row: Found) -> float:
    return float(row["computing"] + row["event loop"])


def _update(found: Found) -> str:
    lines = [
        (phase, *(f"{value:.1f}" for value in _phase(found["laps"], phase))) for phase in ("calm", "update", "swap")
    ]
    lines += [
        (f"{phase}, by hand", *(f"{value:.1f}" for value in _phase(found["swaps"], phase)))
        for phase in ("calm", "swap")
    ]
    facts = found["medians"]
    during, swap = facts["throughput_during_update"], facts["p99_across_swap"]
    return (
        "## During an update and across a swap\n\nEight clients; `lwf` + `zstci`, four new classes, "
        f"{facts['update_seconds']:.0f} s from POST to live. {facts['queries']} queries, {facts['failed']} failed.\n\n"
        f"{_table(('', 'answers/s', 'p50 ms', 'p99 ms'), lines)}\n\nOver calm, round by round: throughput during the "
        f"update {during:.2f} (target 0.5), p99 during it {facts['p99_during_update']:.2f}, p99 across the swap at its "
        f"end {swap:.2f}, across a swap by hand {facts['p99_across_swap_by_hand']:.2f} (target 2).\n"
    )


def _phase(laps: Sequence[Found], phase: str) -> tuple[float, float, float]:
    values = [sorted(lap[phase][name] for lap in laps)[len(laps) // 2] for name in ("rate", "p50", "p99")]
    return values[0], 1000 * values[1], 1000 * values[2]


def _startup(found: Found) -> str:
    return (
        "## From `zstci api` to ready, with a version at hand (target 5 s)\n\n"
        f"{found['wall']:.2f} s ({found['cpu']:.2f} s of CPU), the slowest {found['slowest']:.2f} s.\n"
    )


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [head, rule, *lines])


def _plot(path: Path, found: Found) -> None:
    """CPU efficiency and share of the limit, by kind of body; a group of bars for each number of clients."""
    kinds = list(found["rows"])
    figure, panels = plt.subplots(2, len(kinds), figsize=(11, 7), squeeze=False, layout="constrained")
    for column, kind in enumerate(kinds):
        for axes, (name, title) in zip(
            panels[:, column], (("efficiency", "CPU efficiency"), ("of_limit", "answers/s over the limit")), strict=True
        ):
            _bars(axes, found["rows"][kind], name)
            axes.set_title(f"{title}, {kind}", size=10, loc="left")
    panels[0, 0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _bars(axes: Any, rows: Found, name: str) -> None:
    servers = [server for server in next(iter(rows.values())) if server != "raw engine"]
    width = 0.8 / len(servers)
    for number, server in enumerate(servers):
        places = [place + number * width for place in range(len(rows))]
        axes.bar(places, [row[server][name] for row in rows.values()], width, label=server)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xticks([place + 0.4 - width / 2 for place in range(len(rows))], [f"{clients} clients" for clients in rows])
