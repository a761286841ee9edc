"""The README's Python runs as written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pictures import picture, save_digits

README = Path(__file__).parents[2] / "README.md"


def test_the_readmes_python_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL))
    save_digits(tmp_path / "birds", [0, 1], count=3, size=64)
    save_digits(tmp_path / "more-birds", [7], count=3, size=64)
    (tmp_path / "photo.jpg").write_bytes(picture(7, 5))
    monkeypatch.chdir(tmp_path)

    found: dict[str, object] = {}
    exec(compile(code, str(README), "exec"), found)

    assert found["names"] == found["again"].classify(found["ImageFiles"](["photo.jpg"]), k=3)[1]  # type: ignore[attr-defined, operator]
    assert found["first"].prototypes.ids == ("digit-0", "digit-1")  # type: ignore[attr-defined]
    assert found["again"].prototypes.ids == ("digit-0", "digit-1", "digit-7")  # type: ignore[attr-defined]
