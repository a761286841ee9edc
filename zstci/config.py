"""Settings of one update, as frozen dataclasses, and the presets that name whole sets of them."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args, get_type_hints

from zstci.errors import InvalidConfig, UnknownStrategy

__all__ = [
    "PRESETS",
    "Config",
    "InputConfig",
    "NetConfig",
    "TrainConfig",
    "TranslatorConfig",
    "preset",
]

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

Augment = Literal["none", "crop", "resized_crop"]
HeadInit = Literal["orthogonal", "normal"]
Trainable = Literal["head", "last", "all"]
BatchNorm = Literal["train", "train_first", "eval"]
Unify = Literal["paper", "unified", "off"]
Precision = Literal["auto", "full", "mixed"]
Epsilon = Literal["corrected", "plain"]


@dataclass(frozen=True)
class InputConfig:
    """How an image becomes the [3, size, size] pixels that the net reads."""

    size: int = 224
    resize: int = 256
    mean: tuple[float, ...] = (127 / 255,) * 3  # what the default backbone was trained with
    std: tuple[float, ...] = (128 / 255,) * 3
    augment: Augment = "resized_crop"


@dataclass(frozen=True)
class NetConfig:
    """`weights` is `pretrained`, `none` or the path of a safetensors file for the trunk."""

    backbone: str = "efficientnet_lite0"
    weights: str = "pretrained"
    dim: int = 0  # 0: as wide as the trunk's own features
    head_init: HeadInit = "orthogonal"
    head_std: float = 0.001  # of `normal`
    input: InputConfig = field(default_factory=InputConfig)


@dataclass(frozen=True)
class TrainConfig:
    """An epoch is `images_per_class` images of each class of the task, as in the published runs."""

    trainable: Trainable = "head"
    epochs: int = 50
    lr: float = 1e-4
    weight_decay: float = 0.0
    epsilon: Epsilon = "corrected"
    classes_per_batch: int = 8
    images_per_class: int = 8
    margin: float = 0.2
    batchnorm: BatchNorm = "eval"
    weight: float | None = None  # lambda of the regularizer; None: the paper's
    accumulate: bool = False  # importance: sum over tasks instead of the latest task's only
    precision: Precision = "auto"


@dataclass(frozen=True)
class TranslatorConfig:
    """Options of all translators; each reads its own."""

    sigma: float = 0.3  # sdc
    ridge: float = 0.1  # linear
    align: bool = True  # zstci, down to `batch_size`
    unify: Unify = "paper"
    gamma: float = 200.0
    beta: float = 100.0
    delta: float = 100.0
    margin: float = 0.0
    hidden: int = 1024
    lr: float = 2e-3
    epochs: int = 50
    batch_size: int = 128
    candidates: tuple[str, ...] = ("none", "sdc", "linear")  # auto
    transport_covariance: bool | None = None  # None: where the translator is linear; elsewhere it does harm


@dataclass(frozen=True)
class Config:
    net: NetConfig = field(default_factory=NetConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    translation: TranslatorConfig = field(default_factory=TranslatorConfig)
    regularizer: str = "frozen"
    translator: str = "auto"
    classifier: str = "whitened"
    shrinkage: float = 1.0
    seed: int = 1993
    device: str = "auto"

    def __post_init__(self) -> None:
        _check_types(self, "")
        _check_values(self)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        return _build(cls, values, "")

    def override(self, **values: Any) -> Self:
        """A copy with dotted settings changed: `override(**{"train.epochs": 5, "regularizer": "lwf"})`."""
        tree = self.to_dict()
        for path, value in values.items():
            *parents, leaf = path.split(".")
            node: Any = tree
            for name in parents:
                node = node.get(name) if isinstance(node, dict) else None
            if not isinstance(node, dict) or leaf not in node:
                raise InvalidConfig(
                    f"unknown setting {path!r}; known ones: {', '.join(sorted(_paths(self.to_dict())))}"
                )
            node[leaf] = node[leaf] | value if isinstance(node[leaf], dict) and isinstance(value, dict) else value
        return self.from_dict(tree)


def _check_values(config: Config) -> None:
    """Refuse what would only fail, or loop for ever, deep inside training."""
    train, translation = config.train, config.translation
    at_least_one = {
        "train.epochs": train.epochs,
        "translation.epochs": translation.epochs,
        "translation.batch_size": translation.batch_size,
        "translation.hidden": translation.hidden,
        "net.input.size": config.net.input.size,
    }
    above_zero = {
        "train.lr": train.lr,
        "translation.lr": translation.lr,
        "translation.sigma": translation.sigma,
        "translation.ridge": translation.ridge,
        "net.input.std": min(config.net.input.std, default=0.0),
    }
    not_negative = {
        "train.margin": train.margin,
        "train.weight_decay": train.weight_decay,
        "train.weight": train.weight or 0.0,
        "translation.margin": translation.margin,
        "translation.gamma": translation.gamma,
        "translation.beta": translation.beta,
        "translation.delta": translation.delta,
        "net.dim": config.net.dim,
        "net.head_std": config.net.head_std,
        "shrinkage": config.shrinkage,
        "seed": config.seed,
    }
    for name, value in {**at_least_one, **above_zero, **not_negative}.items():
        if not math.isfinite(value):
            raise InvalidConfig(f"{name} must be a finite number, got {value}")
    for name, value in at_least_one.items():
        if value < 1:
            raise InvalidConfig(f"{name} must be at least 1, got {value}")
    for name, number in above_zero.items():
        if number <= 0:
            raise InvalidConfig(f"{name} must be above 0, got {number}")
    for name, number in not_negative.items():
        if number < 0:
            raise InvalidConfig(f"{name} must not be negative, got {number}")
    _check_sizes(config)
    if train.classes_per_batch < 2:
        raise InvalidConfig("train.classes_per_batch must be at least 2: a triplet needs a negative")
    if train.images_per_class < 2:
        raise InvalidConfig("train.images_per_class must be at least 2: a triplet needs a positive")
    for name, channels in {"net.input.mean": config.net.input.mean, "net.input.std": config.net.input.std}.items():
        if len(channels) != 3 or not all(map(math.isfinite, channels)):
            raise InvalidConfig(f"{name} must be three finite numbers, one a colour channel, got {list(channels)}")
    if not translation.align and translation.unify == "off":
        raise InvalidConfig(
            "translation.align=false with translation.unify=off leaves zstci nothing to learn; turn one on"
        )
    if config.net.input.resize < config.net.input.size:
        raise InvalidConfig("net.input.resize must be at least net.input.size")


def _check_sizes(config: Config) -> None:
    """Numbers that no machine holds are refused here, and not by the allocator of a worker."""
    train, translation, net = config.train, config.translation, config.net
    at_most = {
        "train.epochs": (train.epochs, 1_000_000),
        "train.classes_per_batch": (train.classes_per_batch, 10_000),
        "train.images_per_class": (train.images_per_class, 10_000),
        "translation.epochs": (translation.epochs, 1_000_000),
        "translation.hidden": (translation.hidden, 65_536),
        "net.dim": (net.dim, 65_536),
        "net.input.size": (net.input.size, 4096),
        "net.input.resize": (net.input.resize, 4096),
        "seed": (config.seed, 2**63 - 1),
    }
    for name, (value, limit) in at_most.items():
        if value > limit:
            raise InvalidConfig(f"{name} must be at most {limit}, got {value}")


def _paths(tree: dict[str, Any], prefix: str = "") -> list[str]:
    nested = [_paths(v, f"{prefix}{k}.") if isinstance(v, dict) else [f"{prefix}{k}"] for k, v in tree.items()]
    return [path for group in nested for path in group]


def _build(cls: Any, values: dict[str, Any], prefix: str) -> Any:
    hints = get_type_hints(cls)
    unknown = set(values) - set(hints)
    if unknown:
        raise InvalidConfig(
            f"unknown setting {prefix}{sorted(unknown)[0]!r}; known ones: {', '.join(prefix + k for k in hints)}"
        )
    return cls(**{name: _coerce(hints[name], value, prefix + name) for name, value in values.items()})


def _check_types(settings: Any, prefix: str) -> None:
    """Settings that were built in Python are held to the same types and names as those that were read."""
    for name, hint in get_type_hints(type(settings)).items():
        value = getattr(settings, name)
        if not dataclasses.is_dataclass(hint):
            _coerce(hint, value, prefix + name)
        elif isinstance(value, hint):  # type: ignore[arg-type]
            _check_types(value, f"{prefix}{name}.")
        else:
            raise InvalidConfig(f"{prefix}{name} must be a {hint.__name__}, got {value!r}")  # type: ignore[union-attr]


def _coerce(hint: Any, value: Any, name: str) -> Any:
    """Exactly the declared type; an int is welcome where a float is asked for, a list where a tuple is."""
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise InvalidConfig(f"{name} must be a mapping of settings, got {value!r}")
        return _build(hint, value, f"{name}.")
    if getattr(hint, "__origin__", None) is Literal:
        if value not in get_args(hint):
            raise UnknownStrategy(name, str(value), get_args(hint))
        return value
    if getattr(hint, "__origin__", None) is tuple:
        if not isinstance(value, list | tuple):
            raise InvalidConfig(f"{name} must be a list, got {value!r}")
        return tuple(_coerce(get_args(hint)[0], item, name) for item in value)
    allowed = get_args(hint) or (hint,)
    if float in allowed and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        names = " or ".join(getattr(kind, "__name__", str(kind)) for kind in allowed)
        raise InvalidConfig(f"{name} must be {names}, got {value!r}")
    return value


_CIFAR_INPUT = InputConfig(
    size=32, resize=32, mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010), augment="crop"
)
_PAPER_TRAIN = TrainConfig(
    trainable="all",
    epochs=51,
    lr=1e-5,
    weight_decay=2e-4,
    epsilon="plain",
    classes_per_batch=4,
    images_per_class=8,
    margin=0.0,
)

PRESETS: dict[str, Config] = {
    # No training, seconds an update, hard to beat: see the README's table.
    "default": Config(),
    # For a CPU, with the translator that its own test chooses. LwF at the paper's weight: whitened, a loose one (0.1)
    # ends 2.9 points lower on CUB.
    "head": Config(regularizer="lwf"),
    "paper-cifar100": Config(
        net=NetConfig("resnet32", "none", 512, "normal", input=_CIFAR_INPUT),
        train=replace(_PAPER_TRAIN, batchnorm="train_first"),
        regularizer="lwf",
        translator="zstci",
        classifier="ncm",
    ),
    "paper-cub": Config(
        net=NetConfig("resnet18", "pretrained", 512, "normal", input=InputConfig(mean=IMAGENET_MEAN, std=IMAGENET_STD)),
        train=replace(_PAPER_TRAIN, batchnorm="train"),
        translation=TranslatorConfig(gamma=1000.0, epochs=100),
        regularizer="lwf",
        translator="zstci",
        classifier="ncm",
    ),
}


def preset(name: str) -> Config:
    if name not in PRESETS:
        raise UnknownStrategy("preset", name, PRESETS)
    return PRESETS[name]
