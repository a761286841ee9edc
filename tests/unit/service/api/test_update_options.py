"""What can be chosen for an update, and what is refused before any work is done."""

import json
from typing import get_args, get_type_hints

import pytest

from service.api.update_options import FIELDS, parse_labels, parse_options
from service.domain import UpdateOptions
from service.errors import InvalidOption
from service.usecases.configure import SHORT_NAMES
from tests.unit.service.api.sending import NEW, packed, send
from tests.unit.service.api.surface import refused
from zstci.choices import REGULARIZERS
from zstci.classifiers import CLASSIFIERS
from zstci.config import PRESETS
from zstci.translators import TRANSLATORS

OPTIONS = get_type_hints(UpdateOptions)


def test_nothing_chosen_is_the_default():
    assert parse_options({}) == UpdateOptions()
    assert parse_options({name: [""] for name in FIELDS}) == UpdateOptions()  # an empty HTML form


def test_everything_can_be_chosen():
    chosen = {
        "preset": "head",
        "regularizer": "lwf",
        "translator": "zstci",
        "classifier": "ncm",
        "on_bad_image": "skip",
        "on_existing_class": "merge",
        "activate": "manual",
        "instant": "true",
        "holdout": "0.25",
    }
    found = parse_options({name: [value] for name, value in chosen.items()})

    assert set(chosen) == set(OPTIONS) - {"overrides"}
    assert found == UpdateOptions(**chosen | {"instant": True, "holdout": 0.25})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("True", True), ("1", True), ("false", False), ("0", False)]
)
def test_yes_and_no_in_the_ways_that_people_write_them(text, value):
    assert parse_options({"instant": [text]}).instant is value


@pytest.mark.parametrize(
    ("name", "text", "setting", "value"),
    [
        ("epochs", "5", "train.epochs", 5),
        ("lr", "1e-3", "train.lr", 0.001),
        ("trainable", "last", "train.trainable", "last"),
        ("translation.ridge", "0.5", "translation.ridge", 0.5),
        ("net.input.mean", "[0.1, 0.2, 0.3]", "net.input.mean", [0.1, 0.2, 0.3]),
        ("seed", "7", "seed", 7),
        ("train.weight", "null", "train.weight", None),
    ],
)
def test_settings_go_by_short_or_dotted_names(name, text, setting, value):
    assert parse_options({name: [text]}).overrides == {setting: value}


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ([], []),
        (["a"], ["a"]),
        (["a", "a", "b"], ["a", "a", "b"]),
        (['["a", "b"]'], ["a", "b"]),
        (["[sic]", "a"], ["[sic]", "a"]),  # several fields are never JSON
    ],
)
def test_labels_as_fields_or_as_one_list(labels, found):
    assert parse_labels({"labels": labels}) == found


@pytest.mark.parametrize("label", ["[", '["a"', "[1]", '["a", null]', "[" * 50_000])
def test_labels_that_look_like_a_list_but_are_none(label):
    with pytest.raises(InvalidOption, match="labels"):
        parse_labels({"labels": [label]})


def test_the_description_names_what_can_be_chosen():
    """Its choices are written out there; these are the tables they stand for."""
    assert sorted(FIELDS["regularizer"]["enum"]) == sorted(REGULARIZERS)
    assert sorted(FIELDS["translator"]["enum"]) == sorted(TRANSLATORS)
    assert sorted(FIELDS["classifier"]["enum"]) == sorted(CLASSIFIERS)
    for name in ("on_bad_image", "on_existing_class", "activate"):
        assert tuple(FIELDS[name]["enum"]) == get_args(OPTIONS[name])
        assert FIELDS[name]["default"] == getattr(UpdateOptions(), name)
    assert FIELDS["holdout"]["default"] == UpdateOptions().holdout
    assert all(name in FIELDS["preset"]["description"] for name in PRESETS)
    assert set(FIELDS) <= set(OPTIONS) | set(SHORT_NAMES)
    assert set(OPTIONS) - {"overrides"} <= set(FIELDS)


BAD = [
    ("regularizer", "lfw", "unknown_strategy"),
    ("regularizer", '["lwf"]', "unknown_strategy"),
    ("translator", "google", "unknown_strategy"),
    ("classifier", "svm", "unknown_strategy"),
    ("preset", "fast", "unknown_strategy"),
    ("train.trainable", "nothing", "unknown_strategy"),
    ("on_bad_image", "ignore", "invalid_option"),
    ("on_existing_class", "replace", "invalid_option"),
    ("activate", "later", "invalid_option"),
    ("instant", "maybe", "invalid_option"),
    ("holdout", "-0.1", "invalid_option"),
    ("holdout", "0.6", "invalid_option"),
    ("holdout", "nan", "invalid_option"),
    ("holdout", "inf", "invalid_option"),
    ("holdout", "some", "invalid_option"),
    ("epoch", "5", "invalid_option"),
    ("train", '{"epochs": 5}', "invalid_option"),
    ("overrides", "{}", "invalid_option"),
    ("", "5", "invalid_option"),
    ("epochs", ["5", "6"], "invalid_option"),
    ("train.epoch", "5", "invalid_config"),
    ("train.epochs.most", "5", "invalid_config"),
    (".", "5", "invalid_config"),
    ("epochs", "0", "invalid_config"),
    ("epochs", "many", "invalid_config"),
    ("epochs", "1.5", "invalid_config"),
    ("epochs", "[" * 50_000, "invalid_config"),
    ("lr", "NaN", "invalid_config"),
    ("lr", "1e999", "invalid_config"),
    ("lr", "-1", "invalid_config"),
    ("device", "abacus", "invalid_config"),
    ("device", '"\\ud800"', "invalid_config"),
    ("seed", "-1", "invalid_config"),
    ("net.weights", "/etc/passwd", "invalid_option"),
    ("net.weights", "../weights.safetensors", "invalid_option"),
    ("net.weights", "[]", "invalid_option"),
    ("net.weights", "null", "invalid_option"),
    ("net.dim", "32", "invalid_option"),
    ("backbone", "efficientnet_lite0", "invalid_option"),
    ("net.input.size", "4", "invalid_option"),
]


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(("name", "value", "code"), BAD)
def test_an_option_that_cannot_be_is_refused(client, name, value, code):
    refused(send(client, **{name: value}), 422, code)


def test_a_backbone_that_is_not_known_is_named_to_whoever_sends_the_first_update(empty_client):
    refused(send(empty_client, backbone="resnet31"), 422, "unknown_strategy")


@pytest.mark.parametrize("weights", ["/etc/passwd", "weights.safetensors", "file:///etc/passwd", "{}"])
def test_the_first_update_reads_no_file_of_the_servers_either(empty_client, weights):
    problem = refused(send(empty_client, **{"net.weights": weights}), 422, "invalid_option")

    assert "pretrained or none" in problem["detail"]


@pytest.mark.usefixtures("unchanged")
def test_an_unknown_name_is_answered_with_the_known_ones(client):
    problem = refused(send(client, regularizer="lfw"), 422, "unknown_strategy")

    assert problem["detail"] == "unknown regularizer 'lfw'; choose one of: ewc, finetune, frozen, lwf, mas"


@pytest.mark.usefixtures("unchanged")
def test_a_dry_run_as_a_field_is_not_taken_for_a_real_one(client):
    response = client.post("/v1/updates", files=packed(NEW), data={"dry_run": "true"})

    assert "?dry_run=true" in refused(response, 422, "invalid_option")["detail"]


@pytest.mark.usefixtures("unchanged")
def test_instant_classes_cannot_wait_to_be_activated(client):
    refused(send(client, instant="true", activate="manual", regularizer="lwf"), 422, "invalid_option")


def test_instant_means_nothing_where_nothing_is_trained(client):
    assert send(client, instant="true", regularizer="frozen").json()["options"]["instant"] is False


def test_what_was_chosen_is_told(client):
    options = send(client, regularizer="lwf", epochs="5", holdout="0", instant="1").json()["options"]

    assert (options["regularizer"], options["instant"], options["holdout"]) == ("lwf", True, 0.0)
    assert options["overrides"] == {"train.epochs": 5}
    assert (options["preset"], options["translator"]) == (None, None)


def test_a_preset_keeps_the_net_of_the_service(client):
    config = send(client, dry_run=True, preset="paper-cub", **{"train.epochs": json.dumps(2)}).json()["config"]

    assert (config["net"]["backbone"], config["net"]["dim"], config["train"]["epochs"]) == ("resnet32", 16, 2)
