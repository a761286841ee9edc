"""The command line. Commands import what they need when they run, so that `zstci --help` does not wait for torch.

Exit codes: 0 done, 2 refused or wrong input, 3 no service there, 4 the update failed, 5 it was cancelled, 130 Ctrl-C.
"""

from __future__ import annotations

import sys

import typer

from service.cli import add, classes, evaluate, migrate, query, reproduce, serve, updates, versions

__all__ = ["app", "main"]

app = typer.Typer(
    help="Keeps learning new image classes without keeping any old image.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("serve")(serve.serve)
app.command("api")(serve.api)
app.command("worker")(serve.worker)
app.command("migrate")(migrate.migrate)
app.command("add")(add.add)
app.command("classify")(query.classify)
app.command("evaluate")(evaluate.evaluate)
app.add_typer(classes.app, name="classes")
app.add_typer(updates.app, name="updates")
app.add_typer(versions.app, name="versions")
app.command("reproduce")(reproduce.reproduce)


def main() -> None:
    try:
        app()
    except Exception as error:
        from service.cli.failures import describe, exit_code
        from service.cli.output import echo
        from zstci.errors import ZstciError

        if not isinstance(error, ZstciError):
            raise
        for line in describe(error):
            echo(line, err=True)
        sys.exit(exit_code(error))
