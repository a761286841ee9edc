"""Puts the parts of an API process together from the settings. Nothing here runs at import, or imports torch."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from service.config import Settings
from service.serving.live import ModelSlot
from service.serving.pool import Budget, Gate, Pool, make_pool
from service.storage.artifacts import Artifacts, artifacts_url
from service.storage.audit import AuditStore
from service.storage.database import Database, database_url
from service.storage.jobs import Jobs
from service.storage.keys import KeyStore
from service.storage.updates import UpdateStore
from service.storage.versions import VersionStore
from service.usecases.audit import Audit
from service.usecases.change_classes import ClassChanger
from service.usecases.follow import Follower
from service.usecases.keyring import Keyring
from service.usecases.manage_keys import KeyManager
from service.usecases.purge import Purger
from service.usecases.rates import Rates
from service.usecases.submit_update import Submitter

__all__ = ["Parts", "assemble", "storage"]

_GUESSES = 1.0, 100  # a second, and at once: a key cannot be guessed, so this only spares work and logs
_STREAM_THREADS = 2  # of all streams: each asks a few short questions a second


@dataclass(frozen=True)
class Parts:
    """What one API process is made of."""

    settings: Settings
    database: Database
    updates: UpdateStore
    versions: VersionStore
    artifacts: Artifacts
    jobs: Jobs
    slot: ModelSlot
    follower: Follower
    submitter: Submitter
    changer: ClassChanger
    purger: Purger
    audit_log: AuditStore
    audit: Audit
    keys: KeyStore
    keyring: Keyring
    key_manager: KeyManager
    rates: Rates
    guesses: Rates  # wrong keys, by address
    pool: Pool
    gate: Gate
    bodies: Budget
    uploads: Gate
    upload_pool: ThreadPoolExecutor
    streams: Gate
    stream_pool: ThreadPoolExecutor
    stopping: threading.Event  # set when the process was asked to end: streams must not hold it up

    def close(self) -> None:
        self.follower.close()
        self.keyring.close()
        for pool in (self.pool, self.upload_pool, self.stream_pool):
            pool.shutdown()
        self.jobs.close()
        self.database.close()


def assemble(settings: Settings) -> Parts:
    database, artifacts = storage(settings)
    updates, versions, jobs, slot = UpdateStore(database), VersionStore(database), Jobs(settings), ModelSlot()
    audit_log, keys = AuditStore(database), KeyStore(database)
    audit = Audit(audit_log)
    return Parts(
        settings,
        database,
        updates,
        versions,
        artifacts,
        jobs,
        slot,
        Follower(versions, artifacts, slot),
        Submitter(updates, versions, artifacts, jobs, settings),
        ClassChanger(updates, versions, artifacts, settings),
        Purger(updates, versions, artifacts, settings),
        audit_log,
        audit,
        keys,
        Keyring(keys, settings.admin_key, settings.poll_seconds),
        KeyManager(keys, audit),
        Rates(settings.rate_limit, settings.rate_burst),
        Rates(*_GUESSES, what="wrong keys from one address:"),
        make_pool(settings.serve_threads),
        Gate(settings.max_queue),
        Budget(settings.max_queue_bytes),
        Gate(settings.max_uploads, "uploads"),
        ThreadPoolExecutor(settings.max_uploads, thread_name_prefix="upload"),
        Gate(settings.max_streams, "streams of events"),
        ThreadPoolExecutor(_STREAM_THREADS, thread_name_prefix="events"),
        threading.Event(),
    )


def storage(settings: Settings) -> tuple[Database, Artifacts]:
    (settings.home / "work").mkdir(parents=True, exist_ok=True)
    return Database(database_url(settings), settings.lease_seconds), Artifacts(
        artifacts_url(settings), settings.home / "cache"
    )
