"""A client that asks as somebody at this machine does, so that no key is needed as long as there is none."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient

__all__ = ["local_client"]


def local_client(app: FastAPI, **options: Any) -> TestClient:
    return TestClient(app, **{"base_url": "http://localhost", "client": ("127.0.0.1", 50000), **options})
