import pytest
import torch

from service.errors import NoClassesYet
from service.serving.live import LiveModel, ModelSlot
from tests.pictures import save_digits
from zstci import ImageFiles


@pytest.fixture
def models(store):
    return [LiveModel.load(store.folder(number), number) for number in (1, 2)]


def test_a_slot_without_a_model_says_what_to_do():
    slot = ModelSlot()

    assert slot.version is None
    with pytest.raises(NoClassesYet, match="no classes yet: run zstci learn DIR"):
        _ = slot.current


def test_a_request_in_flight_finishes_on_the_version_it_started(models):
    slot = ModelSlot()
    slot.swap(models[0])
    started = slot.current
    slot.swap(models[1])

    assert (started.version, len(started.index)) == (1, 3)
    assert (slot.current.version, len(slot.current.index)) == (2, 5)


def test_embeddings_are_those_of_the_snapshot(models, snapshots, tmp_path):
    paths = sorted(save_digits(tmp_path / "images", [3, 4]).rglob("*.png"))
    files = ImageFiles(paths)
    pixels = files.plain(torch.arange(len(paths)), snapshots[1].config.net.input)

    assert torch.equal(models[1].embed(pixels), snapshots[1].embed(files))
