import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zstci.config import PRESETS, Config, preset
from zstci.errors import InvalidConfig, UnknownStrategy


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_a_trip_through_json(name):
    config = preset(name)

    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@given(
    lr=st.floats(1e-8, 1.0),
    weight=st.none() | st.floats(0, 1e9),
    epochs=st.integers(1, 1000),
    candidates=st.lists(st.sampled_from(["none", "sdc", "linear", "zstci"])),
)
def test_any_valid_values_survive_a_trip_through_json(lr, weight, epochs, candidates):
    config = Config().override(
        **{"train.lr": lr, "train.weight": weight, "train.epochs": epochs, "translation.candidates": candidates}
    )

    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert config.translation.candidates == tuple(candidates)


def test_what_a_dict_leaves_out_keeps_its_default():
    config = Config.from_dict({"train": {"epochs": 3}})

    assert config == Config().override(**{"train.epochs": 3})
    assert config.train.lr == Config().train.lr


def test_the_published_settings_are_in_the_paper_presets():
    cifar, cub = preset("paper-cifar100"), preset("paper-cub")

    assert (cifar.net.backbone, cifar.net.dim, cifar.net.head_std) == ("resnet32", 512, 0.001)
    assert (cub.net.backbone, cub.net.dim, cub.net.weights) == ("resnet18", 512, "pretrained")
    for config in (cifar, cub):
        train = config.train
        assert (train.epochs, train.lr, train.weight_decay, train.margin) == (51, 1e-5, 2e-4, 0.0)
        assert (train.classes_per_batch, train.images_per_class, train.trainable) == (4, 8, "all")
        assert (config.translator, config.classifier) == ("zstci", "ncm")
    assert (cifar.train.batchnorm, cub.train.batchnorm) == ("train_first", "train")
    assert (cifar.translation.gamma, cifar.translation.beta, cifar.translation.epochs) == (200, 100, 50)
    assert (cub.translation.gamma, cub.translation.beta, cub.translation.epochs) == (1000, 100, 100)


def test_the_default_preset_is_frozen_and_whitened():
    assert (preset("default").regularizer, preset("default").classifier) == ("frozen", "whitened")


def test_an_unknown_preset_lists_the_known_ones():
    with pytest.raises(UnknownStrategy, match="unknown preset 'fast'; choose one of: default, head, paper-cifar100"):
        preset("fast")


def test_override_changes_a_copy_and_leaves_the_original():
    config = Config()

    changed = config.override(**{"train.epochs": 5, "net.input.size": 32, "regularizer": "lwf"})

    assert (changed.train.epochs, changed.net.input.size, changed.regularizer) == (5, 32, "lwf")
    assert changed.train.lr == config.train.lr
    assert config == Config()


@pytest.mark.parametrize(
    "path",
    [
        "epochs",
        "train.epoch",
        "trian.epochs",
        "net.input.sice",
        "seed.value",
        "regularizer.fro",
        "net.input.mean.0",
        "",
    ],
)
def test_overriding_an_unknown_setting_lists_the_known_ones(path):
    with pytest.raises(InvalidConfig, match=r"unknown setting .*known ones: .*train\.epochs") as caught:
        Config().override(**{path: 1})

    assert repr(path) in str(caught.value)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"epochs": 5}, "epochs"),
        ({"train": {"epoch": 5}}, "train.epoch"),
        ({"net": {"input": {"sise": 5}}}, "net.input.sise"),
    ],
)
def test_an_unknown_key_is_refused_with_its_full_name(values, named):
    with pytest.raises(InvalidConfig, match="unknown setting") as caught:
        Config.from_dict(values)

    assert named in str(caught.value).replace("'", "")
    assert "known ones" in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "advice"),
    [
        ("train.epochs", 2.5, "must be int"),
        ("train.epochs", "5", "must be int"),
        ("train.epochs", True, "must be int"),
        ("train.epochs", None, "must be int"),
        ("train.lr", "fast", "must be float"),
        ("train.lr", False, "must be float"),
        ("train.weight", "1", "must be float or NoneType"),
        ("train.accumulate", 1, "must be bool"),
        ("regularizer", 3, "must be str"),
        ("net", 5, "must be a mapping"),
        ("net.input", [1], "must be a mapping"),
        ("net.input.mean", 0.5, "must be a list"),
        ("net.input.mean", [0.5, "a", 0.5], "must be float"),
        ("translation.candidates", "none", "must be a list"),
        ("translation.candidates", ["none", 1], "must be str"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(path, value, advice):
    with pytest.raises(InvalidConfig) as caught:
        Config().override(**{path: value})

    assert str(caught.value).startswith(path)
    assert advice in str(caught.value)


def test_a_whole_number_is_welcome_where_a_fraction_is_asked_for():
    lr = Config().override(**{"train.lr": 1}).train.lr

    assert lr == 1.0
    assert isinstance(lr, float)


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("train.trainable", "all, head, last"),
        ("train.batchnorm", "eval, train, train_first"),
        ("train.precision", "auto, full, mixed"),
        ("translation.unify", "off, paper, unified"),
        ("net.input.augment", "crop, none, resized_crop"),
        ("net.head_init", "normal, orthogonal"),
    ],
)
def test_a_choice_outside_its_list_is_refused_with_the_list(path, known):
    with pytest.raises(UnknownStrategy) as caught:
        Config().override(**{path: "other"})

    assert str(caught.value) == f"unknown {path} 'other'; choose one of: {known}"


BAD_NUMBERS: list[tuple[str, Any]] = [
    ("train.epochs", 0),
    ("train.classes_per_batch", 0),
    ("train.images_per_class", 1),
    ("train.lr", 0),
    ("train.lr", math.nan),
    ("train.lr", math.inf),
    ("train.margin", -0.1),
    ("train.margin", math.nan),
    ("train.weight", -1.0),
    ("train.weight", math.nan),
    ("train.weight_decay", -1e-4),
    ("translation.epochs", 0),
    ("translation.batch_size", 0),
    ("translation.hidden", 0),
    ("translation.lr", -1.0),
    ("translation.sigma", 0.0),
    ("translation.ridge", 0.0),
    ("translation.ridge", math.inf),
    ("translation.margin", -1.0),
    ("translation.gamma", math.nan),
    ("translation.beta", -1.0),
    ("translation.delta", math.inf),
    ("net.dim", -1),
    ("net.head_std", math.nan),
    ("net.input.size", 0),
    ("net.input.resize", 100),
    ("net.input.mean", [math.nan, 0.5, 0.5]),
    ("net.input.mean", [0.5, 0.5]),
    ("net.input.std", [0.0, 0.2, 0.2]),
    ("net.input.std", [0.2]),
    ("seed", -1),
    ("shrinkage", -0.5),
    ("shrinkage", math.inf),
]


@pytest.mark.parametrize(("path", "value"), BAD_NUMBERS)
def test_a_number_that_cannot_work_is_refused_by_name(path, value):
    with pytest.raises(InvalidConfig) as caught:
        Config().override(**{path: value})

    assert str(caught.value).startswith(path)
    assert "must" in str(caught.value)


def test_a_bad_number_is_refused_however_the_config_is_made():
    with pytest.raises(InvalidConfig, match="seed must not be negative"):
        Config(seed=-1)


@pytest.mark.parametrize(
    "setting", ["train.epochs", "train.images_per_class", "translation.hidden", "net.dim", "net.input.size", "seed"]
)
def test_numbers_that_no_machine_holds_are_refused(setting):
    with pytest.raises(InvalidConfig, match=f"{setting} must be at most"):
        Config().override(**{setting: 10**26, **({"net.input.resize": 10**26} if "size" in setting else {})})
