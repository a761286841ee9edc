"""The README's Python and its first commands run as written."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.pictures import picture, save_digits
from tests.processes import COMMAND, Service, wait_until

README = (Path(__file__).parents[2] / "README.md").read_text()
ASKING, LEARNING = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def birds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    save_digits(tmp_path / "birds", [0, 1], count=4, size=64)
    save_digits(tmp_path / "more-birds", [7], count=4, size=64)
    (tmp_path / "photo.jpg").write_bytes(picture(7, 5))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("birds")
def test_the_librarys_python_runs_as_written() -> None:
    found: dict[str, object] = {}
    exec(compile(LEARNING, "README.md", "exec"), found)

    assert found["names"] == found["again"].classify(found["ImageFiles"](["photo.jpg"]), k=3)[1]  # type: ignore[attr-defined, operator]
    assert found["first"].prototypes.ids == ("digit-0", "digit-1")  # type: ignore[attr-defined]
    assert found["again"].prototypes.ids == ("digit-0", "digit-1", "digit-7")  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.usefixtures("birds")
def test_the_clients_python_and_the_shell_commands_run_as_written(
    sqlite_service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    api = sqlite_service.serve()
    exec(compile(ASKING.replace("8000", str(api.port)), "README.md", "exec"), {})
    assert "publishing" in capsys.readouterr().out

    tried = README.partition("## Try it")[2].partition("The same with")[0]
    commands = [line.partition("#")[0].strip() for line in tried.splitlines() if line.startswith("    ")]
    assert commands[:2] == ["make serve", "zstci add birds/"]
    outputs = [_shell(command, api.port) for command in commands[2:]]

    wait_until(lambda: api.version() == 1)
    assert '"version":1' in outputs[0]
    assert "version   2" in outputs[1]
    assert "version 1 is active" in outputs[3]
    assert _shell(f"curl -N localhost:{api.port}/v1/updates/{api.get('/v1/updates')['data'][0]['id']}/events", 0)


def _shell(command: str, port: int) -> str:
    """With our own `zstci`, and the port that the test has."""
    environment = {"PATH": f"{COMMAND.parent}:/usr/bin:/bin", "ZSTCI_URL": f"http://127.0.0.1:{port}"}
    shell = shutil.which("bash")
    assert shell is not None
    words = [shell, "-ec", command.replace("localhost:8000", f"localhost:{port}")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout
