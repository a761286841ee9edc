"""The service from Python, over HTTP.

with Client() as client:
    update = client.add("birds/", regularizer="lwf")
    update.wait(on_progress=lambda progress: ...)
    client.classify("photo.jpg").predictions[0].name

`AsyncClient` has the same methods with `await`. Errors are caught by their class: what the service refused is an
`ApiError` and, where service/errors.py has a class for its `code`, one of that class too.
"""

from service.client.async_client import AsyncClient
from service.client.client import Client
from service.client.errors import ApiError, Fault, UpdateCancelled, UpdateFailed
from service.client.events import UpdateEvent
from service.client.models import (
    AuditEntry,
    ClassEntry,
    Classification,
    DryRun,
    DryRunClass,
    Embeddings,
    Hit,
    Prediction,
    Progress,
    Ready,
    Rejected,
    Search,
    UpdateEntry,
    UpdateError,
    UpdateOptions,
    VersionEntry,
)
from service.client.options import AddOptions
from service.client.update import AsyncUpdate, Update

__all__ = [
    "AddOptions",
    "ApiError",
    "AsyncClient",
    "AsyncUpdate",
    "AuditEntry",
    "ClassEntry",
    "Classification",
    "Client",
    "DryRun",
    "DryRunClass",
    "Embeddings",
    "Fault",
    "Hit",
    "Prediction",
    "Progress",
    "Ready",
    "Rejected",
    "Search",
    "Update",
    "UpdateCancelled",
    "UpdateEntry",
    "UpdateError",
    "UpdateEvent",
    "UpdateFailed",
    "UpdateOptions",
    "VersionEntry",
]
