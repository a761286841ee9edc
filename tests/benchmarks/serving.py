"""The service under load: beside its peers, during an update, across a swap, and from its start until it is ready.

    python -m tests.benchmarks.serving [--rounds 5] [--seconds 5] [--only throughput threads update startup]

The net is the default backbone, the photo one that scikit-learn brings, the classes are made up. The peers need
`.venv-peers`, which `make bench` sets up. What was measured before stays in the report.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sklearn.datasets import load_sample_images
from tqdm import tqdm

from tests.benchmarks.inputs import jpegs
from tests.benchmarks.measure import machine
from tests.benchmarks.serving_report import write_serving
from tests.benchmarks.serving_startup import measure_startup
from tests.benchmarks.serving_threads import measure_threads
from tests.benchmarks.serving_throughput import measure_throughput
from tests.benchmarks.serving_update import measure_update
from tests.processes import Service

RESULTS = Path(__file__).parent / "results"
_CLASSES, _PER_CLASS = 50, 4

Part = Callable[[Service, Path, argparse.Namespace, Callable[[], object]], Any]
PARTS: dict[str, Part] = {
    "throughput": measure_throughput,
    "threads": measure_threads,
    "update": measure_update,
    "startup": measure_startup,
}


def main() -> None:
    options = _options()
    path = options.out / "serving.json"
    content: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    for name in options.only or list(PARTS):
        about = machine() | {"date": time.strftime("%Y-%m-%d %H:%M"), "rounds": options.rounds}
        with (
            tempfile.TemporaryDirectory() as folder,
            tqdm(desc=name, bar_format="{desc:<12}{n_fmt} laps, {elapsed}") as bar,
        ):
            found = _measure(PARTS[name], Path(folder), options, bar.update)
        about["load_after"] = [round(load, 1) for load in os.getloadavg()]
        content[name] = {"about": about, "found": found}
        write_serving(options.out, content)
    print((options.out / "serving.md").read_text())


def _measure(part: Part, folder: Path, options: argparse.Namespace, on_lap: Callable[[], object]) -> Any:
    """Each part on a service of its own that has learnt fifty classes."""
    service = Service(folder / "home", "")
    try:
        _learn_first(service, folder / "classes")
        return part(service, _photo(folder), options, on_lap)
    finally:
        service.end()


def _learn_first(service: Service, folder: Path) -> None:
    images = iter(jpegs(folder / "all", _CLASSES * _PER_CLASS).paths)
    for number in range(_CLASSES):
        (folder / "sorted" / f"class {number:02}").mkdir(parents=True)
        for _ in range(_PER_CLASS):
            image = next(images)
            image.rename(folder / "sorted" / f"class {number:02}" / image.name)
    api = service.serve()
    service.run("add", folder / "sorted", ZSTCI_URL=f"http://127.0.0.1:{api.port}")
    api.process.terminate()
    api.process.wait(30)


def _photo(folder: Path) -> Path:
    """640 x 427, from a camera."""
    name = next(name for name in load_sample_images().filenames if "china" in str(name))
    found = folder / "photo.jpg"
    found.write_bytes(Path(name).read_bytes())
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="laps that medians are taken of (default 5)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of one lap (default 5)")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), help="some parts, not all")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for serving.json, .md and .png")
    return parser.parse_args()


if __name__ == "__main__":
    main()
