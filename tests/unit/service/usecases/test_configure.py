import pytest

from service.domain import UpdateOptions
from service.errors import InvalidOption
from service.usecases.configure import choose_config
from zstci import preset
from zstci.errors import InvalidConfig, UnknownStrategy


def test_the_first_update_takes_the_services_preset_unless_it_names_one():
    assert choose_config(None, UpdateOptions(), "default") == preset("default")
    assert choose_config(None, UpdateOptions(preset="head"), "default") == preset("head")


def test_later_updates_take_the_net_and_classifier_of_their_parent_and_the_rest_of_the_preset():
    parent = preset("head").override(**{"net.dim": 64, "train.epochs": 3, "classifier": "ncm"})

    chosen = choose_config(parent, UpdateOptions(), "default")
    assert (chosen.net, chosen.classifier) == (parent.net, "ncm")
    assert (chosen.regularizer, chosen.train) == ("frozen", preset("default").train), "it trains only when asked to"
    named = choose_config(parent, UpdateOptions(preset="head"), "default")
    assert (named.net, named.train, named.classifier) == (parent.net, preset("head").train, "whitened")


def test_options_and_short_names_win_over_the_preset():
    options = UpdateOptions(regularizer="ewc", translator="zstci", overrides={"epochs": 7, "translation.ridge": 0.5})
    config = choose_config(None, options, "default")

    assert (config.regularizer, config.translator) == ("ewc", "zstci")
    assert (config.train.epochs, config.translation.ridge) == (7, 0.5)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (UpdateOptions(regularizer="lfw"), UnknownStrategy, "ewc, finetune, frozen, lwf, mas"),
        (UpdateOptions(translator="google"), UnknownStrategy, "auto, linear"),
        (UpdateOptions(classifier="svm"), UnknownStrategy, "ncm, whitened"),
        (UpdateOptions(preset="best"), UnknownStrategy, "default, head"),
        (UpdateOptions(overrides={"train.epoch": 3}), InvalidConfig, "train.epochs"),
        (UpdateOptions(overrides={"epochs": 0}), InvalidConfig, "at least 1"),
        (UpdateOptions(overrides={"backbone": "resnet-99"}), UnknownStrategy, "efficientnet_lite0"),
        (UpdateOptions(overrides={"backbone": "resnet32"}), InvalidConfig, "weights=none"),
        (UpdateOptions(overrides={"net.weights": "/etc/passwd"}), InvalidOption, "pretrained or none"),
        (UpdateOptions(overrides={"device": "toaster"}), InvalidConfig, "auto, cpu"),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_write_instead(options, error, words):
    with pytest.raises(error, match=words):
        choose_config(None, options, "default")


def test_the_net_of_a_service_cannot_be_changed():
    with pytest.raises(InvalidOption, match="stays efficientnet_lite0"):
        choose_config(preset("default"), UpdateOptions(overrides={"net.dim": 7}), "default")
