import os
from dataclasses import asdict

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from service.cli import app
from service.cli.demo import Data, _folder, _translators
from service.cli.demo.data import write_story
from service.cli.demo.drawn import DRAWN, draw
from service.cli.demo.own_service import own_service
from service.cli.demo.plot import draw_plot
from service.cli.demo.report import StoryBar, echo_results
from service.cli.demo.story import Measured, count_steps
from service.client import Progress
from service.errors import ServiceUnreachable
from zstci.errors import InvalidConfig, UnknownStrategy

FOUND = [
    Measured(1, "auto", 1, ("a", "b"), None, 90.0, 90.0, 3.0),
    Measured(2, "none", 2, ("c",), 40.0, 80.0, 50.0, 2.0),
    Measured(2, "auto", 3, ("c",), 85.0, 80.0, 83.0, 2.0),
]


@pytest.mark.parametrize(("kind", "sizes"), [("digits", [4, 3, 3]), ("pictures", [4, 4, 4])])
def test_a_story_has_three_updates_whose_test_images_were_never_sent(tmp_path, kind, sizes):
    story = write_story(kind, tmp_path, count=4)
    assert [len(task.classes) for task in story.tasks] == sizes
    for task in story.tasks:
        sent = sorted(task.folder.rglob("*.png"))
        assert len(sent) == len(task.tests) == 4 * len(task.classes)
        assert {path.parent.name for path in sent} == set(task.classes) == {name for name, _ in task.tests}
        assert all(name == path.parent.name for name, path in task.tests)
        assert not {path.read_bytes() for path in sent} & {path.read_bytes() for _, path in task.tests}


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawn_picture_is_never_the_same_twice_except_for_the_same_seed(name):
    random = np.random.default_rng(5)
    one, other = (np.asarray(draw(name, random)) for _ in range(2))
    assert one.shape == (96, 96, 3)
    assert not np.array_equal(one, other)
    assert np.array_equal(one, np.asarray(draw(name, np.random.default_rng(5))))


def test_the_plot_is_a_picture_of_the_numbers(tmp_path):
    story = write_story("digits", tmp_path / "images", count=2)
    draw_plot(story, FOUND, tmp_path / "new" / "plot.png")
    draw_plot(story, [FOUND[0], FOUND[1], Measured(**asdict(FOUND[2]) | {"old": 20.0})], tmp_path / "other.png")
    pixels = [
        np.asarray(Image.open(path).convert("RGB")) for path in (tmp_path / "new" / "plot.png", tmp_path / "other.png")
    ]
    assert pixels[0].shape == pixels[1].shape
    assert not np.array_equal(pixels[0], pixels[1])


def test_the_table_stands_the_two_lines_of_versions_side_by_side(capsys):
    echo_results([asdict(row) for row in FOUND])
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0] == ["update", "1:", "a,", "b"]
    assert lines[-2] == ["2", "without", "2", "40.0", "%", "80.0", "%", "50.0", "%", "2.0"]
    assert lines[-1] == ["2", "auto", "3", "85.0", "%", "80.0", "%", "83.0", "%", "2.0"]


def test_the_bar_draws_nothing_where_there_is_no_terminal(tmp_path, capsys):
    bar = StoryBar(count_steps(write_story("digits", tmp_path, count=2), ["none", "auto"]))
    bar("update 1", None)
    bar("update 1", Progress(stage="fine_tuning", progress=0.5, epoch=1, epochs=2, loss=0.5))
    bar.close()
    assert capsys.readouterr() == ("", "")


def test_none_is_always_compared_with_and_comes_first_so_that_translation_answers_at_the_end():
    assert _translators("zstci, auto,none") == ["none", "zstci", "auto"]
    with pytest.raises(UnknownStrategy, match="unknown translator 'atuo'"):
        _translators("auto,atuo")


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InvalidConfig, match="not empty"), _folder(tmp_path):
        pass
    with _folder(None) as temporary:
        (temporary / "x").write_text("x")
    assert not temporary.exists()


def test_the_data_is_digits_pictures_or_both():
    assert [kind.value for kind in Data] == ["digits", "pictures", "both"]
    assert CliRunner().invoke(app, ["demo", "--data", "birds"]).exit_code == 2


def test_a_service_that_cannot_start_says_what_its_log_says(tmp_path, monkeypatch):
    """It gets none of our settings, so only something in its own home can be in its way."""
    monkeypatch.setenv("ZSTCI_PORT", "many")
    (tmp_path / "zstci.db").write_bytes(b"this is no database" * 100)
    with (
        pytest.raises(ServiceUnreachable, match=r"did not start; .* its log ends with: .*not a database"),
        own_service(tmp_path),
    ):
        pass
    assert os.environ["ZSTCI_PORT"] == "many"
