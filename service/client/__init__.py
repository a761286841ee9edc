"""The service from Python, over HTTP.

with Client() as client:
    update = client.add("birds/", regularizer="lwf")
    update.wait(on_progress=lambda progress: ...)
    client.classify("photo.jpg").predictions[0].name
"""

from service.client.client import Client
from service.client.errors import ApiError, Fault, UpdateCancelled, UpdateFailed
from service.client.events import UpdateEvent
from service.client.models import (
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
