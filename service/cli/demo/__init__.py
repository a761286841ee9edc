"""zstci demo: the whole story by itself, on data that needs no download."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli.output import AsJson, echo_json, say

__all__ = ["demo"]


class Data(StrEnum):
    digits = "digits"
    pictures = "pictures"
    both = "both"


Which = Annotated[
    Data, typer.Option("--data", help="Scanned digits (the gap is wide), drawn shapes and textures, or both")
]
Translator = Annotated[str, typer.Option(help="What to compare with no translation; several with commas between")]
Count = Annotated[
    int, typer.Option("--images", min=4, max=80, help="Images of a class to learn from; as many others test it")
]
Home = Annotated[
    Path | None,
    typer.Option(help="A new folder for the service and its images (default: a temporary one)", show_default=False),
]
Out = Annotated[Path, typer.Option(help="Folder for the plots")]
OnlyImages = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Only write its images to this new folder, to try the service by hand", show_default=False
    ),
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the service running until Ctrl-C.")]


def demo(
    data: Which = Data.both,
    translator: Translator = "auto",
    images: Count = 30,
    home: Home = None,
    out: Out = Path("."),
    keep: Keep = False,
    only_images: OnlyImages = None,
    as_json: AsJson = False,
) -> None:
    """Watch what translation is for: a service of its own learns three times, with and without it. A minute or two."""
    kinds: list[Data] = [kind for kind in Data if data in (kind, Data.both) and kind is not Data.both]
    if only_images is not None:
        _write_images(kinds, only_images, images, as_json)
        return
    translators = _translators(translator)
    documents = []
    with _folder(home) as folder, ExitStack() as kept:
        for kind in kinds:
            plot = out / f"zstci-demo-{kind.value}.png"
            with ExitStack() as service:
                documents.append(_tell(kind, translators, images, folder / kind.value, plot, service))
                if keep:
                    kept.push(service.pop_all())
                else:
                    documents[-1]["url"] = None
            if not as_json:
                _echo(documents[-1])
        if as_json:
            echo_json({"stories": documents})
        if keep:
            _stay([document["url"] for document in documents])
        elif not as_json:
            say("their services have ended; zstci demo --keep leaves them running, to look at:")
            _echo_pages("http://127.0.0.1:PORT")


def _write_images(kinds: list[Data], folder: Path, images: int, as_json: bool) -> None:
    from service.cli.demo.data import write_story

    with _folder(folder) as root:
        stories = [(kind.value, write_story(kind.value, root / kind.value, images)) for kind in kinds]
    if as_json:
        echo_json({"folders": [str(task.folder) for _, story in stories for task in story.tasks]})
        return
    for kind, story in stories:
        for task in story.tasks:
            say(f"{folder / kind / task.folder.name}  {', '.join(task.classes)}")
        say(f"{folder / kind / 'test'}  other images of the same classes")


def _tell(
    kind: Data, translators: list[str], images: int, folder: Path, plot: Path, service: ExitStack
) -> dict[str, Any]:
    from service.cli.demo.data import write_story
    from service.cli.demo.own_service import own_service
    from service.cli.demo.plot import draw_plot
    from service.cli.demo.report import StoryBar
    from service.cli.demo.story import SETTINGS, count_steps, run
    from service.client import Client

    started = time.monotonic()
    story = write_story(kind.value, folder / "images", images)
    with closing(StoryBar(count_steps(story, translators))) as bar:
        url = service.enter_context(own_service(folder / "home"))
        say(f"{kind.value}: a service of its own runs at {url}/docs", err=True)
        with Client(url) as client:
            found = run(client, story, translators, bar)
    draw_plot(story, found, plot)
    return {
        "data": kind.value,
        "settings": SETTINGS,
        "rows": [asdict(row) for row in found],
        "plot": str(plot),
        "seconds": round(time.monotonic() - started, 1),
        "url": url,
    }


def _echo(document: dict[str, Any]) -> None:
    from service.cli.demo.report import echo_results

    tests = "handwritten digits" if document["data"] == "digits" else "drawn shapes and textures"
    say(f"{tests}, plain fine-tuning; correct answers about images that were never sent:")
    echo_results(document["rows"])
    say(f"plot: {document['plot']} (all of this took {document['seconds']} s)")


def _stay(urls: list[str]) -> None:
    for url in urls:
        say("the service runs on until Ctrl-C; look at:", err=True)
        _echo_pages(url, err=True)
        say(f"  ZSTCI_URL={url} zstci versions", err=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        return


def _echo_pages(url: str, err: bool = False) -> None:
    for path, what in _PAGES.items():
        say(f"  {url}{path.ljust(14)} {what}", err=err)


_PAGES = {
    "/docs": "every call, to try",
    "/v1/versions": "what was learnt when, and which version answers",
    "/v1/classes": "what is known",
    "/v1/updates": "how it came to be, and the receipts of the deleted images",
    "/metrics": "for Prometheus",
}


def _translators(text: str) -> list[str]:
    from zstci.choices import TRANSLATORS
    from zstci.errors import UnknownStrategy

    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in TRANSLATORS:
            raise UnknownStrategy("translator", name, TRANSLATORS)
    return list(dict.fromkeys(["none", *names]))


@contextmanager
def _folder(home: Path | None) -> Iterator[Path]:
    from zstci.errors import InvalidConfig

    if home is None:
        temporary = Path(tempfile.mkdtemp(prefix="zstci-demo-"))
        try:
            yield temporary
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        raise InvalidConfig(
            f"{home} is there already and not empty; give a new folder, so that nothing of yours is mixed in"
        )
    yield home.absolute()
