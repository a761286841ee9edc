"""The clients of these tests refuse every answer that the API's own description does not announce."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from service.app import create_app
from service.bootstrap import Parts
from service.config import Settings
from service.domain import Actor
from tests.unit.service.api.surface import check_documented, everything


@pytest.fixture(scope="session")
def described(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    """Only for its description, which is the same for every app and takes a while."""
    return create_app(Settings(home=tmp_path_factory.mktemp("described")))


@pytest.fixture
def client(client: TestClient, described: FastAPI) -> TestClient:
    client.event_hooks = {"response": [partial(check_documented, described)]}
    return client


@pytest.fixture
def empty_client(empty_client: TestClient, described: FastAPI) -> TestClient:
    empty_client.event_hooks = {"response": [partial(check_documented, described)]}
    return empty_client


@pytest.fixture
def unchanged(parts: Parts) -> Iterator[None]:
    """For what is refused: afterwards everything is as it was."""
    before = everything(parts)
    yield
    assert everything(parts) == before


@pytest.fixture
def make_key(parts: Parts) -> Callable[..., dict[str, str]]:
    """A new key as the header to send. From the first one on, everybody needs one."""

    def make(scope: str = "query", name: str = "camera") -> dict[str, str]:
        _, token = parts.key_manager.create(Actor(None, "test"), name, scope)  # type: ignore[arg-type]
        parts.keyring.refresh()
        return {"Authorization": f"Bearer {token}"}

    return make
