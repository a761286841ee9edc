"""The command line. Commands import what they need when they run, so that `zstci --help` does not wait for torch."""

from __future__ import annotations

import sys

import typer

from service.cli import learn, query, reproduce, serve, versions

__all__ = ["app", "main"]

app = typer.Typer(
    help="Keeps learning new image classes without keeping any old image.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("serve")(serve.serve)
app.command("learn")(learn.learn)
app.command("classify")(query.classify)
app.command("classes")(query.classes)
app.command("evaluate")(query.evaluate)
app.add_typer(versions.app, name="versions")
app.command("reproduce")(reproduce.reproduce)


def main() -> None:
    try:
        app()
    except Exception as error:
        from zstci.errors import ZstciError

        if not isinstance(error, ZstciError):
            raise
        typer.echo(f"zstci: {error}", err=True)
        sys.exit(2)
