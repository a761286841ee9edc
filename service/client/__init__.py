"""The service from Python, over HTTP.

with Client() as client:
    update = client.add("birds/", regularizer="lwf")
    update.wait(on_progress=lambda progress: ...)
    client.classify("photo.jpg").predictions[0].name
"""

from service.client.client import Client
from service.client.errors import (
    ApiError,
    Fault,
    NotAllowed,
    RateLimited,
    Unauthenticated,
    UpdateCancelled,
    UpdateFailed,
)
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
from service.client.update import Update

__all__ = [
    "ApiError",
    "AuditEntry",
    "ClassEntry",
    "Classification",
    "Client",
    "DryRun",
    "DryRunClass",
    "Embeddings",
    "Fault",
    "Hit",
    "NotAllowed",
    "Prediction",
    "Progress",
    "RateLimited",
    "Ready",
    "Rejected",
    "Search",
    "Unauthenticated",
    "Update",
    "UpdateCancelled",
    "UpdateEntry",
    "UpdateError",
    "UpdateEvent",
    "UpdateFailed",
    "UpdateOptions",
    "VersionEntry",
]
