"""Real snapshots of a tiny net, one of each kind that is served differently; learnt once, for all tests of serving."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path

from service.serving import bundle
from service.serving.index import PrototypeIndex
from service.serving.live import LiveModel
from service.serving.torch_engine import TorchEngine
from tests.pictures import TINY, save_digits
from zstci import Config, Snapshot, TaskData, learn, preset

KINDS = ("ncm", "whitened", "zstci")
NAMES = {f"digit-{digit}": f"the {digit}" for digit in range(10)}


@functools.cache
def learnt(kind: str) -> Snapshot:
    """Three classes; `zstci` adds two by training, so that queries go through a translator of their own."""
    config = preset("default").override(**TINY, classifier="ncm" if kind == "ncm" else "whitened")
    if kind != "zstci":
        return _learn(None, [0, 1, 2], config)
    trained = {"regularizer": "finetune", "translator": "zstci", "train.epochs": 2, "translation.epochs": 3}
    return _learn(learnt("whitened"), [3, 4], config.override(**trained))


def live_of(snapshot: Snapshot, version: int) -> LiveModel:
    """A model that answers with torch, from a snapshot that is in memory."""
    prototypes, config, metric = snapshot.prototypes, snapshot.config.net.input, snapshot.memory.metric
    index = PrototypeIndex.of(prototypes.means.numpy(), None if metric is None else metric.numpy())
    counts, hops = prototypes.counts.numpy(), prototypes.hops.numpy()
    return LiveModel(version, prototypes.ids, counts, hops, config, TorchEngine(snapshot), index)


def _learn(parent: Snapshot | None, digits: list[int], config: Config) -> Snapshot:
    with tempfile.TemporaryDirectory() as folder:
        return learn(parent, TaskData.from_folder(save_digits(Path(folder), digits)), config)


def reseal(folder: Path, **changes: object) -> None:
    """Describe the files as they are now, like somebody who knows how the digest of a manifest is made."""
    content = json.loads((folder / "version.json").read_text())
    content["files"] = {path.name: bundle._facts(path) for path in folder.iterdir() if path.name != "version.json"}
    content |= changes
    (folder / "version.json").write_text(json.dumps(content | {"sha256": bundle._digest(content)}))
