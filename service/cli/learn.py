"""zstci learn"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.output import parse_settings
from service.cli.progress import StageBars, stop_on_interrupt

if TYPE_CHECKING:
    from service.domain import Version

__all__ = ["learn"]

_STOPPED = 130  # what a shell expects of a program that Ctrl-C ended

Strategy = Annotated[str | None, typer.Option(help="Override the preset's or the parent's.", show_default=False)]


def learn(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of folders: class-name/image.jpg")],
    regularizer: Strategy = None,
    translator: Strategy = None,
    classifier: Strategy = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="A named set of settings, such as default, head or paper-cifar100. Without one: as the active version "
            "was learnt, or `default`. The net always stays that of the active version.",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any single setting, such as train.epochs=5; may be repeated."),
    ] = None,
) -> None:
    """Learn the classes of a folder on top of the active version, and make the result the active one.

    Images of a class that is known already improve it. A run that was stopped or killed goes on from its last
    checkpoint when the same command is given again.
    """
    chosen = {"regularizer": regularizer, "translator": translator, "classifier": classifier}
    overrides = parse_settings(settings or []) | {name: value for name, value in chosen.items() if value is not None}
    _echo(_learn(folder, preset, overrides))


def _learn(folder: Path, preset: str | None, overrides: dict[str, object]) -> Version:
    from service.config import load_settings
    from service.storage.versions import VersionStore
    from service.usecases.learning import learn_folder
    from zstci.errors import Stopped

    store = VersionStore(load_settings().home)
    with closing(StageBars()) as bars, stop_on_interrupt() as should_stop:
        try:
            return learn_folder(
                store, folder, preset_name=preset, overrides=overrides, on_progress=bars, should_stop=should_stop
            )
        except Stopped:
            bars.close()
            typer.echo("zstci: stopped, nothing has changed; give the same command again to go on from there", err=True)
            raise typer.Exit(_STOPPED) from None


def _echo(version: Version) -> None:
    facts = version.facts
    typer.echo(
        f"version {version.number} is active: {facts.classes} classes, {len(facts.added)} of them new, "
        f"from {facts.images} images in {facts.seconds:.1f} s ({facts.regularizer}, {facts.classifier})"
    )
