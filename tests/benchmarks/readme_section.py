"""The README's section on speed, written from the results, so that no figure in it was typed by hand.

python -m tests.benchmarks.readme_section
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks.targets import targets
from tests.benchmarks.updates import as_table

__all__ = ["BEGIN", "END", "section", "write_section"]

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
BEGIN, END = "<!-- Written by make bench: begin -->", "<!-- Written by make bench: end -->"

Found = dict[str, Any]


def write_section(readme: Path = ROOT / "README.md", results: Path = RESULTS) -> None:
    before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, mark, after = rest.partition(END)
    assert mark, f"{readme} has no place for the section: {BEGIN} ... {END}"
    readme.write_text(f"{before}{BEGIN}\n\n{section(results)}\n{END}{after}", encoding="utf-8")


def section(results: Path = RESULTS) -> str:
    writers: dict[str, Callable[[Found], str]] = {
        "serving": _serving,
        "growth": _growth,
        "updates": _updates,
        "learning": _learning,
    }
    paths = {name: results / f"{name}.json" for name in writers}
    found = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.is_file()}
    return "\n".join([_targets(found), *(write(found[name]) for name, write in writers.items() if name in found)])


def _targets(found: Mapping[str, Found]) -> str:
    all_of_them = targets(found)
    missed = "".join(f"- {target}\n" for target in all_of_them if not target.met)
    text = f"**Targets**: {sum(target.met for target in all_of_them)} of {len(all_of_them)} reached"
    return text + (f"; missed:\n\n{missed}" if missed else ".\n")


def _serving(content: Found) -> str:
    text = ""
    if "throughput" in content:
        text += _beside_others(content["throughput"]["found"]["rows"])
    if "threads" in content:
        text += _profile(content["threads"]["found"])
    if "update" in content:
        facts = content["update"]["found"]["medians"]
        text += (
            f"**During an update** (`lwf` + `zstci`, {facts['update_seconds']:.0f} s, eight clients) queries keep "
            f"{facts['throughput_during_update']:.2f} of their idle throughput; p99 across the swap at its end is "
            f"{facts['p99_across_swap']:.2f} of the calm one, across a swap by hand "
            f"{facts['p99_across_swap_by_hand']:.2f}. {facts['failed']} of {facts['queries']:,} queries failed.\n\n"
        )
    if "startup" in content:
        found = content["startup"]["found"]
        text += f"**Start-up**: {found['wall']:.1f} s from `zstci api` to ready with a version at hand.\n"
    return text


def _profile(found: Found) -> str:
    lines = [
        f"| {kind}, {name} | {row['computing']:.1f} ms | {row['event loop']:.2f} ms |"
        for kind, rows in found.items()
        for name, row in rows.items()
    ]
    return (
        "**Where the CPU time of a request goes**, eight clients; `bare uvicorn` reads the body and calls the engine, "
        "and does nothing else:\n\n"
        + "\n".join(["| | threads that compute | event loop |", "|---|---|---|", *lines])
        + "\n\n"
    )


def _beside_others(rows: Found) -> str:
    names = list(next(iter(next(iter(rows.values())).values())))
    lines = [
        f"| {name} | " + " | ".join(_cell(rows[kind][clients][name]) for kind in rows for clients in rows[kind]) + " |"
        for name in names
    ]
    heads = [f"{kind}, {clients}" for kind in rows for clients in rows[kind]]
    return (
        "**Beside others**, the same net, photo and clients, each in its best configuration: CPU efficiency (CPU of "
        "the bare engine for an image over that of the server for a request) / answers per second over the "
        "bare engine / p99 over p50, by kind of body and number of clients "
        "([table and machine](tests/benchmarks/results/serving.md)):\n\n"
        + "\n".join([f"| | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|", *lines])
        + "\n\n![Serving](tests/benchmarks/results/serving.png)\n\n"
    )


def _cell(row: Found) -> str:
    tail = f" / {row['tail']:.2f}" if "tail" in row else ""
    return f"{row['efficiency']:.2f} / {row['of_limit']:.2f}{tail}"


def _growth(content: Found) -> str:
    text = "**As it grows** ([tables](tests/benchmarks/results/growth.md)): "
    if "index" in content:
        rows = content["index"]["found"]
        most = max(rows, key=int)
        row = rows[most]
        ratio = row["search_cpu"] / rows["1000"]["search_cpu"]
        text += (
            f"a search among {int(most):,} classes costs {ratio:.1f} times one among 1,000, with recall@1 "
            f"{row['fresh_recall_at_1']:.3f} and recall@10 {row['fresh_recall_at_10']:.3f}"
        )
    if "updates" in content:
        stored = content["updates"]["found"]["stored"]
        least, most = min(stored, key=int), max(stored, key=int)
        text += (
            f"; an update without training takes {stored[least]['wall']:.1f} s with {int(least):,} classes stored and "
            f"{stored[most]['wall']:.1f} s with {int(most):,}"
        )
    if "swap" in content:
        runs = content["swap"]["found"]
        most = max(runs, key=int)
        run = runs[most]
        swap = run["swaps"][-1]
        text += (
            f"; {int(most):,} classes re-projected, indexed and swapped under queries: {run['failed']} of "
            f"{run['queries']:,} failed, p99 {swap['swapping']['p99_ms']:.0f} ms while swapping "
            f"({swap['before']['p99_ms']:.0f} ms before), memory {swap['before']['rss_mib']} MiB before, at most "
            f"{max(swap[name]['rss_peak_mib'] for name in ('making', 'swapping', 'after'))} on the way, "
            f"{swap['after']['rss_mib']} after"
        )
    return text + ".\n\n![Growth](tests/benchmarks/results/growth.png)\n"


def _updates(content: Found) -> str:
    count = content["species"]
    return (
        f"**{count} species, then {count} more**, through the running service; percent right, milliseconds of a query "
        "without and during the update ([figures](tests/benchmarks/results/updates.json)):\n\n"
        + as_table(content["rows"], count)
    )


def _learning(content: Found) -> str:
    lines = [
        f"| {row['contest']}: {row['duel']['title']} | {_number(row['cpu_ratio'])} | {_number(row['duel']['target'])} |"
        for row in content["results"]
        if row["duel"]["target"] is not None
    ]
    return "\n".join(
        [
            "**Learning**, ratios by CPU time ([table and machine](tests/benchmarks/results/learning.md)):",
            "",
            "| | ratio | target |",
            "|---|---|---|",
            *lines,
            "",
            "![Ratios](tests/benchmarks/results/learning.png)",
            "",
        ]
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


if __name__ == "__main__":
    write_section()
