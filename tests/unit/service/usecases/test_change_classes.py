import pytest

from service.errors import BadClassName, LastClass, NameTaken, UnknownClass, VersionChanged
from service.usecases.change_classes import ClassChanger
from zstci import Snapshot


@pytest.fixture
def changer(bench):
    bench.learn([0, 1, 2])
    return ClassChanger(bench.parts.updates, bench.parts.versions, bench.parts.artifacts, bench.settings)


def ids_of(bench):
    active = bench.parts.versions.active().version
    return Snapshot.load(bench.parts.artifacts.local(bench.parts.versions.get(active).bundle)).prototypes.ids


def test_a_rename_keeps_the_id_and_frees_the_old_name(bench, changer):
    zero, one, _ = ids_of(bench)
    changer.rename(zero, "  nought ")
    changer.rename(one, "digit-0")

    assert [bench.parts.versions.names()[i] for i in (zero, one)] == ["nought", "digit-0"]
    assert bench.parts.versions.active().version == 1, "no new version"


def test_a_rename_to_the_same_name_is_no_clash(bench, changer):
    changer.rename(ids_of(bench)[0], "digit-0")


@pytest.mark.parametrize(
    ("name", "error"), [("digit-1", NameTaken), ("", BadClassName), ("a/b", BadClassName), ("a\u202eb", BadClassName)]
)
def test_a_name_that_is_taken_or_cannot_be_shown_is_refused(bench, changer, name, error):
    with pytest.raises(error):
        changer.rename(ids_of(bench)[0], name)
    assert "digit-0" in bench.parts.versions.names().values()


def test_a_deleted_class_is_gone_from_a_new_version_and_still_in_the_old_one(bench, changer):
    zero, one, two = ids_of(bench)
    version = changer.delete(one)

    assert (version.number, version.parent, version.kind, version.facts.classes) == (2, 1, "delete", 2)
    assert ids_of(bench) == (zero, two)
    bench.parts.versions.activate(1)
    assert ids_of(bench) == (zero, one, two)


def test_what_is_learnt_after_a_deletion_does_not_bring_the_class_back(bench, changer):
    zero, one, two = ids_of(bench)
    changer.delete(one)
    bench.learn([3], regularizer="finetune", translator="linear", overrides={"train.epochs": 2})
    bench.learn([1])

    assert ids_of(bench)[:2] == (zero, two)
    assert one not in ids_of(bench), "a class of the same name that comes later is another one"


def test_unknown_classes_late_callers_and_the_last_class_are_refused(bench, changer):
    zero, one, two = ids_of(bench)
    with pytest.raises(UnknownClass, match="no class has the id 'nobody'; GET /v1/classes"):
        changer.delete("nobody")
    with pytest.raises(UnknownClass, match="no class has the id 'nobody'; GET /v1/classes"):
        changer.rename("nobody", "somebody")
    for change in (changer.delete, lambda name: changer.rename(name, "somebody")):
        with pytest.raises(UnknownClass, match=f"'digit-1' is the name of a class, whose id is {one}; use the id"):
            change("digit-1")
    with pytest.raises(VersionChanged):
        changer.delete(zero, expected=7)
    changer.delete(zero)
    changer.delete(one)
    with pytest.raises(UnknownClass, match=rf"the active version 3 does not have class 'digit-1' \({one}\) any more"):
        changer.delete(one)
    with pytest.raises(LastClass, match=rf"'digit-2' \({two}\) is the only class.*first add another"):
        changer.delete(two)
    assert ids_of(bench) == (two,)
    assert not bench.files("work")


def test_no_two_classes_get_one_name_not_even_after_a_roll_back(bench, changer):
    zero, one, _ = ids_of(bench)
    changer.delete(zero)
    with pytest.raises(NameTaken, match="other versions"):
        changer.rename(one, "digit-0")
    changer.rename(zero, "nought")  # it is in no active version, but in one that may come back
    changer.rename(one, "digit-0")


def test_a_name_that_a_waiting_update_brings_is_taken(bench, changer):
    bench.submit([7])

    with pytest.raises(NameTaken, match="not ended"):
        changer.rename(ids_of(bench)[0], "digit-7")
