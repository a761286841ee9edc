"""Start each peer with the same version and photo, in the configuration that answers most on this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

import numpy as np

from service.serving.bundle import ENGINE, INDEX, NAMES, verify
from tests.benchmarks.peers.servers import PEERS_PYTHON, ROOT, Handover, Server, messages
from tests.processes import wait_until
from zstci.manifest import read_serving_facts

__all__ = ["best_of_peers", "hand_over"]

_TRIALS, _TRIAL_CLIENTS, _TRIAL_SECONDS = 3, 8, 3.0
_RAW_TYPES = {"bentoml": "application/octet-stream"}


def hand_over(bundle: Path, image: Path, folder: Path) -> Handover:
    """What a program without zstci needs of a version."""
    folder.mkdir(parents=True)
    manifest, facts = verify(bundle), read_serving_facts(bundle)
    assert manifest.index is not None
    for name in (ENGINE, INDEX):
        (folder / name).write_bytes((bundle / name).read_bytes())
    if facts.metric is not None:
        np.save(folder / "metric.npy", facts.metric)
    known = {"size": facts.input.size, "resize": facts.input.resize, "gap": manifest.index.gap, "ids": facts.ids}
    (folder / "facts.json").write_text(json.dumps(known | {"names": json.loads((bundle / NAMES).read_bytes())}))
    return Handover(bundle, folder, image, folder)


def best_of_peers(handover: Handover) -> Iterator[tuple[Server, dict[str, float]]]:
    """Each peer in its best configuration, asleep, with the trials that chose it (answers per second)."""
    for name, configurations in _configurations(os.cpu_count() or 1).items():
        rates = {}
        for number, settings in enumerate(configurations):
            server = _start(name, number, settings, handover)
            rates[number] = median(server.measure("raw", _TRIAL_CLIENTS, _TRIAL_SECONDS).rate for _ in range(_TRIALS))
            server.end()
        best = max(rates, key=rates.__getitem__)
        trials = {_describe(configurations[number]): round(rate, 1) for number, rate in rates.items()}
        yield _start(name, best, configurations[best], handover), trials


def _configurations(cores: int) -> dict[str, list[dict[str, str]]]:
    many = str(cores)
    return {
        "litserve": [
            {"PEER_WORKERS": many},
            {"PEER_WORKERS": many, "PEER_SERVERS": "2"},
            {"PEER_WORKERS": many, "PEER_BATCH": "4"},
        ],
        "bentoml": [
            {"PEER_WORKERS": "1", "PEER_THREADS": many},
            {"PEER_WORKERS": many, "PEER_THREADS": "1"},
            {"PEER_WORKERS": many, "PEER_THREADS": many},
            {"PEER_WORKERS": many, "PEER_THREADS": "1", "PEER_METRICS": "0"},
        ],
        "fastapi + torch": [{"PEER_TORCH_THREADS": "1"}, {"PEER_TORCH_THREADS": many}],
    }


def _describe(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name.removeprefix('PEER_').lower()} {value}" for name, value in settings.items())


def _start(name: str, number: int, settings: Mapping[str, str], handover: Handover) -> Server:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = handover.logs / f"{name.split()[0]}-{number}.log"
    environment = os.environ | settings | _environment(handover, port)
    with log.open("w") as output:
        process = subprocess.Popen(
            _command(name, port), env=environment, cwd=ROOT, stdout=output, stderr=output, text=True
        )
    asked = {
        kind: messages(f"/{kind}", handover.image, kind=_RAW_TYPES.get(name, "image/jpeg"), name=_field(name))[kind]
        for kind in ("raw", "multipart")
    }
    server = Server(name, _describe(settings), process, port, log, asked)
    try:
        wait_until(server.answers, str(log))
    except AssertionError:
        server.end()
        raise
    server.measure("raw", _TRIAL_CLIENTS, 0.5)  # every worker of it warm
    return server


def _environment(handover: Handover, port: int) -> dict[str, str]:
    return {
        "PEER_FOLDER": str(handover.folder),
        "PEER_BUNDLE": str(handover.bundle),
        "PEER_PORT": str(port),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "BENTOML_DO_NOT_TRACK": "True",
    }


def _field(name: str) -> str:
    return "request" if name == "litserve" else "files"


def _command(name: str, port: int) -> list[str]:
    peers = "tests.benchmarks.peers"
    if name == "litserve":
        return [str(PEERS_PYTHON), "-m", f"{peers}.lit"]
    if name == "bentoml":
        return [str(PEERS_PYTHON), "-m", "bentoml", "serve", f"{peers}.bento:Peer", "--port", str(port)]
    uvicorn = [sys.executable, "-m", "uvicorn", "--factory", f"{peers}.fastapi_torch:create_app"]
    return [*uvicorn, "--port", str(port), "--no-access-log", "--log-level", "warning"]
