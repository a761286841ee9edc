"""zstci add"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.connect import Url, connect
from service.cli.output import AsJson, echo_json, echo_table, parse_settings, say
from service.cli.progress import UploadBar
from service.cli.watch import STOPPED, watch

if TYPE_CHECKING:
    from service.client import AddOptions, Client, DryRun, Update

__all__ = ["add"]


def names_of(table: str) -> Callable[[str], list[str]]:
    """For the shell, which asks at every TAB: read only then."""

    def begin_with(typed: str) -> list[str]:
        from zstci import choices, config

        return sorted(name for name in getattr(choices, table, ()) or getattr(config, table) if name.startswith(typed))

    return begin_with


class OnBadImage(StrEnum):
    reject = "reject"
    skip = "skip"


class OnExistingClass(StrEnum):
    reject = "reject"
    merge = "merge"


Regularizer = Annotated[
    str | None, typer.Option(help="Override the preset's.", show_default=False, autocompletion=names_of("REGULARIZERS"))
]
Translator = Annotated[
    str | None, typer.Option(help="Override the preset's.", show_default=False, autocompletion=names_of("TRANSLATORS"))
]
Classifier = Annotated[
    str | None, typer.Option(help="Override the parent's.", show_default=False, autocompletion=names_of("CLASSIFIERS"))
]
Preset = Annotated[
    str | None,
    typer.Option(
        help="A named set of settings, such as default, head or paper-cifar100. Without one: the service's "
        "(ZSTCI_DEFAULT_PRESET), which trains nothing. The net always stays that of the active version.",
        show_default=False,
        autocompletion=names_of("PRESETS"),
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any single setting, such as train.epochs=5; may be repeated."),
]
BadImages = Annotated[OnBadImage, typer.Option(help="What to do with an update that holds images that cannot be used")]
Existing = Annotated[OnExistingClass, typer.Option(help="What to do with classes that are known already")]
Manual = Annotated[bool, typer.Option("--manual", help="Leave it to `zstci versions activate` to make it active.")]
Instant = Annotated[bool, typer.Option("--instant", help="Answer with the new classes at once, before training ends.")]
Holdout = Annotated[
    float | None,
    typer.Option(min=0, max=0.5, help="Share of the images to measure accuracy on (default: 0.2)", show_default=False),
]
DryRunOnly = Annotated[bool, typer.Option("--dry-run", help="Only check the images; nothing is kept.")]
Watch = Annotated[bool, typer.Option("--watch/--no-watch", help="Stay until the update has ended.")]


def add(
    source: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder of class-name/image.jpg, or a zip or tar of it")
    ],
    regularizer: Regularizer = None,
    translator: Translator = None,
    classifier: Classifier = None,
    preset: Preset = None,
    settings: Assignments = None,
    on_bad_image: BadImages = OnBadImage.reject,
    on_existing_class: Existing = OnExistingClass.reject,
    manual: Manual = False,
    instant: Instant = False,
    holdout: Holdout = None,
    dry_run: DryRunOnly = False,
    watching: Watch = True,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Teach the running service the classes of a folder. It answers all the while, from the new version when ready."""
    options: AddOptions = {
        "regularizer": regularizer,
        "translator": translator,
        "classifier": classifier,
        "preset": preset,
        "on_bad_image": on_bad_image.value,
        "on_existing_class": on_existing_class.value,
        "activate": "manual" if manual else None,
        "instant": instant or None,
        "holdout": holdout,
        "overrides": parse_settings(settings or []),
    }
    with connect(url) as client:
        if dry_run:
            _echo_check(client.add(source, dry_run=True, **options), as_json)
            return
        update = _upload(client, source, options)
        if watching:
            watch(client, update, as_json)
        elif as_json:
            echo_json(update.entry.model_dump(mode="json"))
        else:
            say(f"update {update.id} is {update.entry.state}; watch it with: zstci updates watch {update.id}")


def _upload(client: Client, source: Path, options: AddOptions) -> Update:
    try:
        with closing(UploadBar()) as bar:
            watched: AddOptions = {**options, "on_upload": bar}
            return client.add(source, **watched)
    except KeyboardInterrupt:
        say("zstci: stopped before the service had taken it; should it have after all: zstci updates", err=True)
        raise typer.Exit(STOPPED) from None


def _echo_check(found: DryRun, as_json: bool) -> None:
    if as_json:
        echo_json({"dry_run": True, **found.model_dump(mode="json")})
        return
    rows = [(part.name, part.images, "known" if part.known else "new") for part in found.classes]
    echo_table(("class", "images", ""), rows)
    say(f"{found.images} images can be learnt from; nothing was kept")
    for image in found.rejected:
        say(f"left out: {image.name}: {image.detail}", err=True)
