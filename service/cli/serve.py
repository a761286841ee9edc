"""zstci serve, api and worker"""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from service.config import Settings

__all__ = ["api", "serve", "worker"]

_GRACE_SECONDS = 8  # for requests in flight; container engines give ten
_CANNOT_START = 3  # as uvicorn's own command

Host = Annotated[str | None, typer.Option(help="Address to listen on (default: ZSTCI_HOST, 127.0.0.1)")]
Port = Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on (default: ZSTCI_PORT, 8000)")]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="Answer anybody, without keys. Only where something else keeps strangers out."),
]

WithParent = Annotated[bool, typer.Option(hidden=True, help="End when standard input does: the parent is gone")]


def serve(host: Host = None, port: Port = None, insecure: Insecure = False, with_parent: WithParent = False) -> None:
    """Run the whole service: the API and a worker, each in a process of its own, restarted should it die."""
    from service import logs
    from service.cli.supervise import end_with_parent, supervise
    from service.storage.exclusive import sign_of_life
    from service.storage.prepare import prepare_database
    from service.usecases.manage_keys import require_keys

    if with_parent:
        end_with_parent()
    logs.configure()
    settings = _settings(host, port, insecure)
    prepare_database(settings)
    require_keys(settings)
    typer.echo(f"zstci: everything is in {settings.home.resolve()}; API description at /docs", err=True)
    life = sign_of_life(settings), settings.lease_seconds
    raise typer.Exit(supervise(settings.host, settings.port, *life, settings.insecure))


def api(host: Host = None, port: Port = None, insecure: Insecure = False, with_parent: WithParent = False) -> None:
    """Run one API process. Updates wait until a worker runs."""
    import importlib

    import uvicorn

    from service import logs
    from service.cli.supervise import end_with_parent
    from service.connections import guarded
    from service.storage.prepare import prepare_database
    from service.storage.standstill import watch
    from service.usecases.manage_keys import require_keys

    if with_parent:
        end_with_parent()
    logs.configure()
    settings = _settings(host, port, insecure)
    prepare_database(settings)
    require_keys(settings)
    watch(settings)
    # By name: the command line and the app stand side by side, neither imports the other.
    application = importlib.import_module("service.app").create_app(settings)

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            application.state.parts.stopping.set()
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        application,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        http=guarded(settings),
        proxy_headers=False,  # nothing here asks where a request came from
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = Server(config)
    server.run()
    if not server.started:
        raise typer.Exit(_CANNOT_START)


def worker(with_parent: WithParent = False) -> None:
    """Run one worker. Give each of several its own ZSTCI_WORKER_ID."""
    import importlib

    from service.cli.supervise import end_with_parent
    from service.config import load_settings
    from service.storage.prepare import prepare_database

    if with_parent:
        end_with_parent()
    settings = load_settings()
    prepare_database(settings)
    # By name, as with the app.
    importlib.import_module("service.worker").run_worker(settings)


def _settings(host: str | None, port: int | None, insecure: bool) -> Settings:
    """Those of the environment, unless the command line says otherwise."""
    from service.config import load_settings

    settings = load_settings()
    given: dict[str, object] = {"host": host, "port": port, "insecure": insecure or None}
    return settings.model_copy(update={name: value for name, value in given.items() if value is not None})
