"""The command line. Commands import what they need when they run, so that `zstci --help` does not wait for torch.

Exit codes:
0    done
1    `zstci doctor` found something bad; `zstci bench` got no answer; or a fault, of this program (with a traceback) or
     inside the service (500)
2    refused, or wrong input
3    no service there, or one that cannot start, or that cannot answer now (502, 503, 504, 507)
4    the update failed
5    the update was cancelled
130  Ctrl-C
With --json an error is a JSON document on standard error: {"error": {"code", "detail", "errors"}}.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from service.cli import (
    add,
    audit,
    bench,
    classes,
    demo,
    doctor,
    evaluate,
    keys,
    migrate,
    query,
    reproduce,
    serve,
    updates,
    versions,
)

__all__ = ["app", "main"]

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"zstci {version('zstci')}")
        raise typer.Exit


@app.callback()
def zstci(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Keeps learning new image classes without keeping any old image."""


app.command("serve")(serve.serve)
app.command("demo")(demo.demo)
app.command("add")(add.add)
app.command("classify")(query.classify)
app.command("evaluate")(evaluate.evaluate)
app.add_typer(classes.app, name="classes")
app.add_typer(updates.app, name="updates")
app.add_typer(versions.app, name="versions")
app.add_typer(keys.app, name="keys")
app.command("audit")(audit.audit)
app.command("doctor")(doctor.doctor)
app.command("bench")(bench.bench)
app.command("api")(serve.api)
app.command("worker")(serve.worker)
app.command("migrate")(migrate.migrate)
app.command("reproduce")(reproduce.reproduce)


def main() -> None:
    try:
        # Standing alone, Typer would draw a box around what was typed wrong, with --json as well.
        code = app(standalone_mode=False)
    except Exception as error:
        from service.cli.failures import as_document, as_known, describe, exit_code
        from service.cli.output import echo_json, say

        known = as_known(error)
        if known is None:
            raise
        if "--json" in sys.argv:
            echo_json(as_document(known), err=True)
        else:
            for line in describe(known):
                say(line, err=True)
        sys.exit(exit_code(known))
    sys.exit(code or 0)
