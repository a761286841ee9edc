"""Ten species, then ten more, through the running service: accuracy, seconds, and what queries feel of it.

    python -m tests.benchmarks.updates [--data DIR]      # DIR/train/<species>/ and DIR/test/<species>/

Without --data it is `cub-mini` in ZSTCI_DATA; where there is neither, nothing is measured.

For each strategy a service of its own: `zstci serve` with nothing but a home and a port. One client asks without a
pause, before and during the second update, so idle and busy latency come from the same process, minutes apart at most.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from service.client import Client
from tests.benchmarks.measure import machine
from tests.processes import Api, Service, wait_until

STRATEGIES: dict[str, dict[str, Any]] = {
    "frozen": {"regularizer": "frozen"},
    "lwf + zstci": {"regularizer": "lwf", "translator": "zstci"},
    "lwf + auto": {"preset": "head"},
}
RESULTS = Path(__file__).parent / "results"


@dataclass
class Queries:
    """One client that asks without a pause; how long each answer took, and who failed."""

    url: str
    content: bytes
    seconds: list[float] = field(default_factory=list)
    failures: int = 0

    def __enter__(self) -> Queries:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        with httpx.Client(base_url=self.url, timeout=60) as http:
            while not self._stop.is_set():
                begun = time.perf_counter()
                response = http.post("/v1/classify", content=self.content)
                self.seconds.append(time.perf_counter() - begun)
                self.failures += response.status_code != 200

    def milliseconds(self) -> dict[str, float]:
        ordered = sorted(1000 * value for value in self.seconds)
        return {
            "p50": statistics.median(ordered),
            "p99": ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
            "queries": len(ordered),
            "failed": self.failures,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ZSTCI_DATA", "")) / "cub-mini")
    parser.add_argument("--species", type=int, default=10, help="in each of the two updates")
    chosen = parser.parse_args()
    if not (chosen.data / "train").is_dir():
        print(f"updates: skipped, because there is no {chosen.data / 'train'}; name the photos' folder with ZSTCI_DATA")
        return
    rows = {name: measure(chosen.data, chosen.species, options) for name, options in STRATEGIES.items()}
    RESULTS.mkdir(exist_ok=True)
    facts = {"machine": machine() | {"date": time.strftime("%Y-%m-%d %H:%M")}, "species": chosen.species, "rows": rows}
    (RESULTS / "updates.json").write_text(json.dumps(facts, indent=1) + "\n")
    table = as_table(rows, chosen.species)
    (RESULTS / "updates.md").write_text(table)
    print(table)


def measure(data: Path, species: int, options: dict[str, Any]) -> dict[str, Any]:
    folders = sorted(path.name for path in (data / "train").iterdir())
    old, new = folders[:species], folders[species : 2 * species]
    with tempfile.TemporaryDirectory() as home:
        service = Service(Path(home), "")
        try:
            api = service.serve()
            with Client(f"http://127.0.0.1:{api.port}") as client:
                return _measure(api, client, data, old, new, options)
        finally:
            service.end()


def _measure(
    api: Api, client: Client, data: Path, old: list[str], new: list[str], options: dict[str, Any]
) -> dict[str, Any]:
    first = client.add({name: _images(data / "train" / name) for name in old}).wait()
    wait_until(lambda: api.version() == first.version)
    before = _accuracy(client, data, old)
    photo = _images(data / "test" / old[0])[0].read_bytes()
    with Queries(f"http://127.0.0.1:{api.port}", photo) as idle:
        time.sleep(5)
    # From before the upload is sent until the new version answers: checking what was sent is part of an update.
    with Queries(f"http://127.0.0.1:{api.port}", photo) as busy:
        second = client.add({name: _images(data / "train" / name) for name in new}, **options).wait()
        wait_until(lambda: api.version() == second.version)
    return {
        "first_seconds": first.metrics["seconds"],
        "second_seconds": second.metrics["seconds"],
        "held_out": second.metrics["accuracy"],
        "old_before": before,
        "old_after": _accuracy(client, data, old),
        "new_after": _accuracy(client, data, new),
        "idle": idle.milliseconds(),
        "busy": busy.milliseconds(),
    }


def _images(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jpg"))


def _accuracy(client: Client, data: Path, species: list[str]) -> float:
    """In percent, over all test photos of these species, among all classes that are known."""
    labelled = [(name, image) for name in species for image in _images(data / "test" / name)]
    answers = client.classify([image for _, image in labelled], k=1)
    right = sum(a.predictions[0].name == name for (name, _), a in zip(labelled, answers, strict=True))
    return 100.0 * right / len(labelled)


def as_table(rows: dict[str, Any], species: int) -> str:
    head = (
        f"| second update | seconds | old {species} before | old {species} after | new {species} "
        "| p50 idle -> update | p99 idle -> update | failed queries |\n|---|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(
        f"| {name} | {row['second_seconds']:.1f} | {row['old_before']:.1f} % | {row['old_after']:.1f} % | "
        f"{row['new_after']:.1f} % | {row['idle']['p50']:.0f} -> {row['busy']['p50']:.0f} ms | "
        f"{row['idle']['p99']:.0f} -> {row['busy']['p99']:.0f} ms | {row['idle']['failed'] + row['busy']['failed']} |\n"
        for name, row in rows.items()
    )


if __name__ == "__main__":
    main()
