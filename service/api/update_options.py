"""The fields of an update's form -> UpdateOptions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args, get_type_hints

from service.domain import UpdateOptions
from service.errors import InvalidOption
from service.usecases.configure import SHORT_NAMES

__all__ = ["FIELDS", "parse_labels", "parse_options"]

FIELDS: dict[str, dict[str, Any]] = {
    "preset": {
        "type": "string",
        "description": "Named settings: default, head, paper-cifar100, paper-cub",
        "examples": ["default"],
    },
    "regularizer": {
        "type": "string",
        "enum": ["frozen", "finetune", "lwf", "ewc", "mas"],
        "description": "What holds the net back while it learns. frozen: it is not trained, and is ready in seconds; "
        "finetune: nothing does; lwf, ewc, mas: ways to forget less",
        "examples": ["lwf"],
    },
    "translator": {
        "type": "string",
        "enum": ["none", "sdc", "zstci", "linear", "auto"],
        "description": "How the means of old classes follow a net that was trained; auto tries several and keeps the "
        "best",
        "examples": ["auto"],
    },
    "classifier": {
        "type": "string",
        "enum": ["ncm", "whitened"],
        "description": "ncm: the nearest class mean; whitened: the same after the spread within classes is evened out",
        "examples": ["whitened"],
    },
    "on_bad_image": {
        "type": "string",
        "enum": ["reject", "skip"],
        "default": "reject",
        "description": "reject: one unusable image refuses the whole update; skip: go on without it, and report it",
        "examples": ["skip"],
    },
    "on_existing_class": {
        "type": "string",
        "enum": ["reject", "merge"],
        "default": "reject",
        "description": "reject: a class that is known already refuses the update; merge: learn more of it",
        "examples": ["merge"],
    },
    "activate": {
        "type": "string",
        "enum": ["auto", "manual"],
        "default": "auto",
        "description": "auto: answer from the new version when it is ready; manual: wait for "
        "POST /v1/versions/{number}/activate",
        "examples": ["manual"],
    },
    "instant": {
        "type": "boolean",
        "default": False,
        "description": "Answer from the new classes at once, under the net as it is, until the trained one is ready; "
        "taken back if the update fails or is cancelled",
        "examples": [True],
    },
    "holdout": {
        "type": "number",
        "minimum": 0,
        "maximum": 0.5,
        "default": 0.2,
        "description": "Share of each class's images to ask about instead of learning from, at least one image, and "
        "always two left to learn from: a class of two images holds out none. 0 learns from all",
        "examples": [0.2],
    },
    "epochs": {
        "type": "integer",
        "minimum": 1,
        "description": "How often the images are gone through in training (train.epochs)",
        "examples": [20],
    },
    "lr": {
        "type": "number",
        "exclusiveMinimum": 0,
        "description": "Learning rate of the training (train.lr)",
        "examples": [0.0001],
    },
    "trainable": {
        "type": "string",
        "enum": ["head", "last", "all"],
        "description": "What is trained of the net (train.trainable): its last layer alone, its last block too, or all "
        "of it, which takes a GPU or patience",
        "examples": ["head"],
    },
}
"""Of the form, for the API's description. Any other setting goes by its dotted name, such as translation.ridge."""

_OWN = {name for name in get_type_hints(UpdateOptions) if name != "overrides"}


def parse_options(fields: Mapping[str, Sequence[str]]) -> UpdateOptions:
    """A name with a dot, or a short name, is a setting of the learning; any other unknown name is refused."""
    own: dict[str, Any] = {}
    overrides: dict[str, Any] = {}
    for name, values in fields.items():
        if name == "labels":
            continue
        if name == "dry_run":  # whoever asks for nothing to happen must not be overheard
            raise InvalidOption("dry_run belongs in the address: POST /v1/updates?dry_run=true")
        if len(values) != 1:
            raise InvalidOption(f"{name} is there {len(values)} times; send it once")
        if name in _OWN:
            own[name] = _own(name, values[0])
        elif name in SHORT_NAMES or "." in name or name in ("shrinkage", "seed", "device"):
            if values[0] != "":
                overrides[SHORT_NAMES.get(name, name)] = _value(values[0])
        else:
            raise InvalidOption(
                f"unknown field {name!r}; known ones: {', '.join(sorted([*_OWN, *SHORT_NAMES]))}, and settings by "
                "their dotted names such as train.epochs"
            )
    return UpdateOptions(**{k: v for k, v in own.items() if v is not None}, overrides=overrides)


def parse_labels(fields: Mapping[str, Sequence[str]]) -> list[str]:
    """One field for each file, or one JSON list for all."""
    values = list(fields.get("labels", ()))
    if len(values) == 1 and values[0].lstrip().startswith("["):
        try:
            decoded = json.loads(values[0])
        except (ValueError, RecursionError) as error:
            raise InvalidOption(
                f"labels is no JSON list ({error}); send a list of strings, or one field a file"
            ) from error
        if not isinstance(decoded, list) or not all(isinstance(label, str) for label in decoded):
            raise InvalidOption("labels must be a JSON list of strings, one for each file")
        return decoded
    return values


def _own(name: str, text: str) -> Any:
    if text == "":  # what an empty field of a form sends
        return None
    if name == "instant":
        if text.lower() not in ("true", "false", "1", "0"):
            raise InvalidOption(f"instant must be true or false, got {text!r}")
        return text.lower() in ("true", "1")
    if name == "holdout":
        try:
            return float(text)
        except ValueError as error:
            raise InvalidOption(f"holdout must be a number such as 0.2, got {text!r}") from error
    allowed = get_args(get_type_hints(UpdateOptions)[name])
    if allowed and type(None) not in allowed and text not in allowed:
        raise InvalidOption(f"unknown {name} {text!r}; choose one of: {', '.join(allowed)}")
    return text


def _value(text: str) -> Any:
    """JSON where it can be, else text: 5, 0.1, true, [1, 2], linear."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # the latter: thousands of brackets
        return text
