"""What was to be reached, and what the results say of it. Whatever was not measured is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Target", "targets"]

Found = dict[str, Any]
_BUSY = ("8", "32")  # clients
_EFFICIENCY = {"raw": 0.90, "multipart": 0.85}


@dataclass(frozen=True)
class Target:
    what: str
    value: float
    least: float | None = None
    most: float | None = None

    @property
    def met(self) -> bool:
        return self.value >= (self.least if self.least is not None else self.value) and (
            self.most is None or self.value <= self.most
        )

    def __str__(self) -> str:
        limit = f"at least {self.least:,g}" if self.least is not None else f"at most {self.most:,g}"
        return f"{self.what}: {self.value:,.3g} ({limit})"


def targets(results: Mapping[str, Found]) -> list[Target]:
    """`results` by the name of their file."""
    readers: dict[str, Callable[[Found], Iterator[Target]]] = {
        "serving": _serving,
        "growth": _growth,
        "learning": _learning,
    }
    return [target for name, read in readers.items() if name in results for target in read(results[name])]


def _serving(content: Found) -> Iterator[Target]:
    if "throughput" in content:
        yield from _throughput(content["throughput"]["found"]["rows"])
    if "update" in content:
        facts = content["update"]["found"]["medians"]
        yield Target("throughput during an update over idle", facts["throughput_during_update"], least=0.5)
        for name in ("p99_across_swap", "p99_across_swap_by_hand"):
            yield Target(f"{name.replace('_', ' ')}, over steady", facts[name], most=2)
        yield Target("failed queries during updates and swaps", facts["failed"], most=0)
    if "startup" in content:
        yield Target("seconds until ready", content["startup"]["found"]["wall"], most=5)


def _throughput(rows: Found) -> Iterator[Target]:
    for kind, least in _EFFICIENCY.items():
        for clients in _BUSY:
            by_name = rows[kind][clients]
            ours, where = by_name["ours"], f"{kind}, {clients} clients"
            yield Target(f"CPU efficiency, {where}", ours["efficiency"], least=least)
            for peer in ("litserve", "bentoml"):
                ahead = ours["efficiency"] / by_name[peer]["efficiency"]
                yield Target(f"CPU efficiency over that of {peer}, {where}", ahead, least=1)
            yield Target(f"p99 over p50, {where}", ours["tail"], most=1.5)


def _growth(content: Found) -> Iterator[Target]:
    if "index" in content:
        rows = content["index"]["found"]
        most = max(rows, key=int)
        ratio = rows[most]["search_cpu"] / rows["1000"]["search_cpu"]
        yield Target(f"search among {int(most):,} classes over 1,000", ratio, most=20)
        yield Target(f"recall@1 among {int(most):,} classes", rows[most]["fresh_recall_at_1"], least=0.99)
        for size, row in rows.items():
            yield Target(f"recall@10 among {int(size):,} classes", row["fresh_recall_at_10"], least=0.99)
    for size, run in content.get("swap", {}).get("found", {}).items():
        where = f"{int(size):,} classes"
        swap = run["swaps"][-1]
        yield Target(f"failed queries, {where}", run["failed"], most=0)
        yield Target(
            f"p99 across a swap over steady, {where}", swap["swapping"]["p99_ms"] / swap["before"]["p99_ms"], most=2
        )
        # The active version and the one before are loaded already; a third would make it 1.5.
        memory = swap["swapping"]["rss_peak_mib"] / swap["before"]["rss_mib"]
        yield Target(f"memory at the peak of a swap over that of two versions, {where}", memory, most=1.25)
        yield Target(f"seconds until ready, {where}", run["start"], most=5)


def _learning(content: Found) -> Iterator[Target]:
    for row in content["results"]:
        if row["duel"]["target"] is not None:
            yield Target(f"{row['contest']}: {row['duel']['title']}", row["cpu_ratio"], least=row["duel"]["target"])
