from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from service.serving import bundle
from tests.unit.service.serving.learnt import NAMES, learnt


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a kind of version, written once; copy it before you change it."""
    root = tmp_path_factory.mktemp("bundles")

    def folder(kind: str) -> Path:
        if not (root / kind).exists():
            bundle.write(learnt(kind), root / kind, NAMES)
        return root / kind

    return folder
