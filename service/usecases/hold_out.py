"""A part of every upload is not learnt from but asked about afterwards: the accuracy that an update reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from service.domain import Upload, UploadedImage
from zstci import ImageFiles, Snapshot
from zstci.hearing import aside
from zstci.seeds import generator

__all__ = ["measure", "split"]

_AT_ONCE = 8  # images; more of them gain nothing on a CPU


def split(upload: Upload, share: float, seed: int) -> tuple[list[UploadedImage], list[UploadedImage]]:
    """What to learn from and what to ask about. At least one image of a class is held out, and two are always left to
    learn from; which ones depends on the seed alone, so that an interrupted update splits the same again."""
    by_class: dict[str, list[UploadedImage]] = {name: [] for name in upload.classes}
    for image in upload.images:
        by_class[image.class_name].append(image)
    learnt: list[UploadedImage] = []
    held: list[UploadedImage] = []
    for name, images in by_class.items():
        count = _held(len(images), share)
        order = torch.randperm(len(images), generator=generator(seed, "hold out", name)).tolist()
        chosen = set(order[:count])
        held += [image for i, image in enumerate(images) if i in chosen]
        learnt += [image for i, image in enumerate(images) if i not in chosen]
    return learnt, held


def _held(images: int, share: float) -> int:
    if not share:
        return 0
    return max(0, min(max(1, round(share * images)), images - 2))


def measure(
    snapshot: Snapshot,
    folder: Path,
    held: Sequence[UploadedImage],
    ids: dict[str, str],
    on_progress: Callable[[float], None],
    look: Callable[[], None],
) -> dict[str, Any]:
    """How often the snapshot is right, among all of its classes, in percent; empty where nothing was held out. `look`
    is called now and then, and may raise to stop."""
    correct: Counter[str] = Counter()
    for start in range(0, len(held), _AT_ONCE):
        look()
        part = held[start : start + _AT_ONCE]
        files = ImageFiles([folder / image.file for image in part])
        _, guesses = aside(partial(snapshot.classify, files), look)
        correct.update(
            image.class_name for image, guess in zip(part, guesses, strict=True) if guess[0] == ids[image.class_name]
        )
        on_progress((start + len(part)) / len(held))
    if not held:
        return {}
    images = Counter(image.class_name for image in held)
    return {
        "accuracy": round(100.0 * correct.total() / len(held), 2),
        "held_out_images": len(held),
        "classes": {name: {"images": images[name], "correct": correct[name]} for name in images},
    }
