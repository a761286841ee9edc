"""What a task brings: inputs in one of three forms (files, arrays, vectors) and one class id for each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from zstci.config import InputConfig
from zstci.errors import InvalidData, LabelMismatch, MixedImages, NotFinite, TooFewImages, UnreadableImage
from zstci.images import crop_and_flip, draw_crops, draw_part, resized_crop, to_pixels
from zstci.pixels import upright_rgb, upright_size

__all__ = ["IMAGE_SUFFIXES", "ImageArrays", "ImageFiles", "Inputs", "TaskData", "Vectors"]

ALL = slice(None)
IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp")


Taken = TypeVar("Taken")


class Inputs(Protocol):
    def __len__(self) -> int: ...

    def plain(self, positions: Tensor, config: InputConfig) -> Tensor:
        """What the net reads at test time, [B, ...]."""

    def augmented(self, positions: Tensor, config: InputConfig, random: torch.Generator, keep: slice = ALL) -> Tensor:
        """The same, randomly cropped and flipped. Only the rows `keep` are returned, but random numbers are drawn for
        all: processes that share a batch crop each image as one alone would."""

    def fingerprint(self) -> str:
        """Changes when the content does: a checkpoint of other data must not be continued."""


class Vectors:
    """Ready-made features [N, F]: a cached trunk, or embeddings from anywhere else. There is nothing to augment."""

    def __init__(self, values: Any) -> None:
        values = torch.as_tensor(values)
        if values.ndim != 2:
            raise InvalidData(f"vectors must be [N, F], got shape {list(values.shape)}")
        self.values = values.float()
        if not torch.isfinite(self.values).all():
            bad = int((~torch.isfinite(self.values).all(1)).nonzero()[0])
            raise NotFinite(f"vector {bad} holds NaN or infinity; remove it or compute it again")

    def __len__(self) -> int:
        return len(self.values)

    def plain(self, positions: Tensor, config: InputConfig) -> Tensor:
        return self.values[positions]

    def augmented(self, positions: Tensor, config: InputConfig, random: torch.Generator, keep: slice = ALL) -> Tensor:
        return self.values[positions[keep]]

    def fingerprint(self) -> str:
        return hashlib.sha256(self.values.contiguous().numpy().tobytes()).hexdigest()


class ImageArrays:
    """Images of one size in memory, uint8 [N, H, W, 3]; augmentation runs on whole batches."""

    def __init__(self, images: Any) -> None:
        stacked = torch.from_numpy(_stack(images)).permute(0, 3, 1, 2)
        self.pixels = stacked.clone(memory_format=torch.contiguous_format)  # [N, 3, H, W], never the caller's memory

    def __len__(self) -> int:
        return len(self.pixels)

    def plain(self, positions: Tensor, config: InputConfig) -> Tensor:
        pixels = self.pixels[positions]
        if pixels.shape[-2:] == (config.size, config.size) and config.resize == config.size:
            return pixels
        return _stacked([to_pixels(self._open(i), config) for i in positions.tolist()], config)

    def augmented(self, positions: Tensor, config: InputConfig, random: torch.Generator, keep: slice = ALL) -> Tensor:
        return _augmented(self, positions, config, random, keep)

    def fingerprint(self) -> str:
        return hashlib.sha256(self.pixels.numpy().tobytes()).hexdigest()

    def _open(self, position: int) -> Image.Image:
        return Image.fromarray(self.pixels[position].permute(1, 2, 0).numpy())

    def _size(self, position: int) -> tuple[int, int]:
        return self.pixels.shape[3], self.pixels.shape[2]


class ImageFiles:
    """Images on disk, decoded when they are needed; any size and mode."""

    def __init__(self, paths: Sequence[Path | str]) -> None:
        if isinstance(paths, str | Path):
            raise InvalidData(f"give a list of paths: ImageFiles([{str(paths)!r}])")
        self.paths = tuple(Path(path) for path in paths)

    def __len__(self) -> int:
        return len(self.paths)

    def plain(self, positions: Tensor, config: InputConfig) -> Tensor:
        return _stacked([to_pixels(self._open(i), config) for i in positions.tolist()], config)

    def augmented(self, positions: Tensor, config: InputConfig, random: torch.Generator, keep: slice = ALL) -> Tensor:
        return _augmented(self, positions, config, random, keep)

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for path in self.paths:
            try:
                digest.update(hashlib.sha256(path.read_bytes()).digest())
            except OSError as error:
                raise _unreadable(path, error) from error
        return digest.hexdigest()

    def _open(self, position: int) -> Image.Image:
        return self._read(position, upright_rgb)

    def _size(self, position: int) -> tuple[int, int]:
        return self._read(position, upright_size)

    def _read(self, position: int, take: Callable[[Image.Image], Taken]) -> Taken:
        path = self.paths[position]
        try:
            with Image.open(path) as image:
                return take(image)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise _unreadable(path, error) from error


@dataclass(frozen=True)
class TaskData:
    """One task: inputs and the class id of each. Classes keep first-seen order."""

    inputs: Inputs
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(self.labels))
        if len(self.inputs) != len(self.labels):
            raise LabelMismatch(
                f"{len(self.inputs)} images but {len(self.labels)} labels; give exactly one label for each image"
            )
        if not self.labels:
            raise TooFewImages("no images at all; give at least one class with at least 2 images")
        if any(not isinstance(label, str) or not label for label in self.labels):
            raise LabelMismatch("every label must be a non-empty string")

    @classmethod
    def from_folder(cls, folder: Path | str) -> Self:
        """A folder of folders: `class-name/image.jpg`. A class folder without images is an error, not a silent gap."""
        root = Path(folder)
        classes = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
        if not classes:
            raise InvalidData(f"{root} holds no class folders; lay the images out as {root.name}/class-name/image.jpg")
        paths: list[Path] = []
        labels: list[str] = []
        for folder_of_class in classes:
            found = sorted(path for path in folder_of_class.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES)
            if not found:
                raise TooFewImages(f"class {folder_of_class.name!r} is empty; add images ({', '.join(IMAGE_SUFFIXES)})")
            paths += found
            labels += [folder_of_class.name] * len(found)
        return cls(ImageFiles(paths), tuple(labels))

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.labels))

    @property
    def targets(self) -> Tensor:
        """Position in `classes` of every label, [N]."""
        position = {name: i for i, name in enumerate(self.classes)}
        return torch.tensor([position[label] for label in self.labels])

    def fingerprint(self) -> str:
        return hashlib.sha256(repr((self.inputs.fingerprint(), self.labels)).encode()).hexdigest()


def _augmented(
    inputs: ImageArrays | ImageFiles, positions: Tensor, config: InputConfig, random: torch.Generator, keep: slice
) -> Tensor:
    if config.augment == "none":
        return inputs.plain(positions[keep], config)
    if config.augment == "crop":
        top, left, flip = draw_crops(len(positions), random)
        return crop_and_flip(inputs.plain(positions[keep], config), (top[keep], left[keep], flip[keep]))
    kept, parts = set(range(len(positions))[keep]), []
    for row, position in enumerate(positions.tolist()):
        if row in kept:
            image = inputs._open(position)
            parts.append(resized_crop(image, config.size, draw_part(image.size, random)))
        else:
            draw_part(inputs._size(position), random)
    return _stacked(parts, config)


def _stacked(images: list[Tensor], config: InputConfig) -> Tensor:
    """[B, 3, S, S], of which there may be none."""
    return torch.stack(images) if images else torch.empty(0, 3, config.size, config.size, dtype=torch.uint8)


def _unreadable(path: Path, error: Exception) -> UnreadableImage:
    return UnreadableImage(f"{path.name} cannot be read as an image ({error}); remove or replace it")


def _stack(images: Any) -> np.ndarray[Any, Any]:
    arrays = images if isinstance(images, np.ndarray) else [_pixels(image) for image in images]
    if not isinstance(arrays, np.ndarray):
        shapes = sorted({array.shape for array in arrays})
        if len(shapes) > 1:
            raise MixedImages(
                f"arrays of mixed size or mode: {shapes[:3]}; bring them to one size and to RGB, or give image files, "
                "which are resized and converted"
            )
        arrays = np.stack(arrays) if arrays else np.empty((0, 1, 1, 3), np.uint8)
    if np.issubdtype(arrays.dtype, np.floating) and not np.isfinite(arrays).all():
        raise NotFinite("the images hold NaN or infinity; remove those images")
    if arrays.dtype != np.uint8:
        raise InvalidData(f"images must be uint8 pixels from 0 to 255, got {arrays.dtype}; scale and convert them")
    if 0 in arrays.shape[1:]:
        raise InvalidData(f"images without pixels: shape {list(arrays.shape)}")
    if arrays.ndim == 3 and arrays.shape[2] in (3, 4):
        raise MixedImages(f"one image of shape {list(arrays.shape)} where several are expected; give image[None]")
    if arrays.ndim == 3:
        arrays = np.repeat(arrays[..., None], 3, axis=3)
    if arrays.ndim != 4 or arrays.shape[3] != 3:
        raise MixedImages(f"images must be [N, H, W] grey or [N, H, W, 3] RGB, got shape {list(arrays.shape)}")
    return np.require(arrays, requirements=["C", "W"])


def _pixels(image: Any) -> np.ndarray[Any, Any]:
    if isinstance(image, Image.Image) and image.mode not in ("L", "RGB"):
        raise MixedImages(f"an image of mode {image.mode!r}; convert images to RGB first: image.convert('RGB')")
    return np.asarray(image)
