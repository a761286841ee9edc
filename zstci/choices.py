"""What can be chosen, by name, without the code behind the names: whoever only takes a choice need not load torch."""

from __future__ import annotations

import re

from zstci.config import Config, NetConfig
from zstci.errors import InvalidConfig, UnknownStrategy

__all__ = ["BACKBONES", "CLASSIFIERS", "REGULARIZERS", "TRANSLATORS", "check_choices", "check_net"]

REGULARIZERS: dict[str, float] = {"frozen": 0.0, "finetune": 0.0, "lwf": 1.0, "ewc": 1e7, "mas": 1e6}
"""Every name with the paper's weight lambda. `frozen` never reaches the trainer: there is nothing to train."""
TRANSLATORS = ("none", "sdc", "linear", "zstci", "auto")
CLASSIFIERS = ("ncm", "whitened")
BACKBONES = ("efficientnet_lite0", "resnet32")  # our own; torchvision and timm have many more
_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


def check_choices(config: Config) -> None:
    """All but the net."""
    if config.regularizer not in REGULARIZERS:
        raise UnknownStrategy("regularizer", config.regularizer, REGULARIZERS)
    if config.classifier not in CLASSIFIERS:
        raise UnknownStrategy("classifier", config.classifier, CLASSIFIERS)
    if config.translator not in TRANSLATORS:
        raise UnknownStrategy("translator", config.translator, TRANSLATORS)
    for candidate in config.translation.candidates if config.translator == "auto" else ():
        if candidate not in TRANSLATORS or candidate == "auto":
            raise UnknownStrategy("candidate of auto", candidate, set(TRANSLATORS) - {"auto"})
    if not _DEVICE.fullmatch(config.device):
        raise InvalidConfig(f"unknown device {config.device!r}; use auto, cpu, cuda or cuda:0")


def check_net(config: NetConfig) -> None:
    """Refuse a net that cannot be made, without making it."""
    if config.backbone in BACKBONES and not (config.backbone == "resnet32" and config.weights == "pretrained"):
        return
    from zstci.nets import check_backbone  # the lists of torchvision and timm: seconds, and torch

    check_backbone(config)
