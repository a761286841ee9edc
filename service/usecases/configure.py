"""From what a caller chose to the settings of one update, refused before any work where they cannot work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from service.domain import UpdateOptions
from service.errors import InvalidOption
from zstci import Config, preset
from zstci.choices import check_choices, check_net

__all__ = ["SHORT_NAMES", "choose_config"]

# What people type most; every other setting goes by its dotted name.
SHORT_NAMES = {
    "epochs": "train.epochs",
    "lr": "train.lr",
    "margin": "train.margin",
    "trainable": "train.trainable",
    "weight": "train.weight",
    "backbone": "net.backbone",
    "dim": "net.dim",
}


def choose_config(parent: Config | None, options: UpdateOptions, default_preset: str) -> Config:
    """What a request does not say, the service's preset says: an update never trains because an earlier one did. The
    net is always the parent's, because its prototypes live in that net's space; so is the classifier, unless named."""
    config = preset(options.preset or default_preset)
    if parent is not None:
        config = replace(config, net=parent.net)
        if options.preset is None:
            config = replace(config, classifier=parent.classifier, shrinkage=parent.shrinkage)
    config = config.override(**_overrides(options))
    _check(config, parent)
    return config


def _overrides(options: UpdateOptions) -> dict[str, Any]:
    chosen = {name: getattr(options, name) for name in ("regularizer", "translator", "classifier")}
    dotted = {SHORT_NAMES.get(name, name): value for name, value in options.overrides.items()}
    weights = dotted.get("net.weights", "none")
    if weights not in ("none", "pretrained"):
        # A path here would let a caller make the server read any of its files.
        raise InvalidOption("net.weights must be pretrained or none; files of weights are not read for a request")
    return dotted | {name: value for name, value in chosen.items() if value is not None}


def _check(config: Config, parent: Config | None) -> None:
    check_choices(config)
    if parent is None:
        check_net(config.net)
    elif replace(config.net, weights="") != replace(parent.net, weights=""):
        raise InvalidOption(
            f"the net of a service stays {parent.net.backbone} with {parent.net.dim or 'all'} dimensions, because "
            "everything that is stored lives in its space; leave out the net settings, or start another service"
        )
