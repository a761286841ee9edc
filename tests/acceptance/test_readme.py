"""The README's tour, its Python and its other commands run as written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.pictures import picture, save_digits
from tests.processes import COMMAND, PATIENCE, Api, Service, wait_until

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ASKING, LEARNING, AWAITING = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def section(title: str) -> str:
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def blocks(text: str) -> list[str]:
    """What is indented by four, as it would be pasted."""
    found = re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)
    return ["".join(line.removeprefix("    ") for line in block.splitlines(keepends=True)) for block in found]


@pytest.fixture
def birds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    save_digits(tmp_path / "birds", [0, 1], count=4, size=64)
    save_digits(tmp_path / "more-birds", [7], count=4, size=64)
    (tmp_path / "photo.jpg").write_bytes(picture(7, 5))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """As `make serve` leaves it: its .venv, and nothing else that the tour could lean on."""
    (tmp_path / ".venv").symlink_to(COMMAND.parents[1])
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_tour_runs_as_written(clone: Path) -> None:
    """Only the port is ours. Its own PATH, on top of a bare one, finds `zstci`."""
    first, *others = blocks(section("Five minutes"))
    assert first == "make serve\n"
    service = Service(clone / "zstci-data", "")  # where it would be by itself
    try:
        _take_the_tour(service.serve(program=_recipe(clone, "serve")), "".join(others), clone)
    finally:
        service.end()


def _take_the_tour(api: Api, script: str, clone: Path) -> None:
    said = _shell(script, clone, api.port)
    assert [line for line in said.splitlines() if line.startswith("version  ")] == ["version      1", "version      2"]
    assert "tour/pictures/test/ring/20.png  (version 1" in said
    assert re.search(r"^overall \d+\.\d % of 96 images, version 2$", said, re.MULTILINE)
    assert "version 1 is active: 4 classes\nversion 2 is active: 8 classes\n" in said
    assert "is now called hoop\nversion 3 is without class dots: 7 classes\n" in said
    assert "key_created" in said.rpartition("outcome")[2]
    [curl] = re.findall(r"`(curl [^`]+)`", section("Five minutes"))
    wait_until(lambda: api.http.get("/v1/classes").status_code == 401)
    assert '"unauthenticated"' in _shell(curl.replace("8000", str(api.port)), clone, api.port)


def _recipe(clone: Path, target: str) -> list[str]:
    """What the Makefile runs once everything is set up."""
    [recipe] = re.findall(rf"^{target}:.*\n\t(.*) \$\(ARGS\)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    command, *rest = recipe.replace("$(BIN)", f"{clone}/.venv/bin").split()
    assert rest == [target], "the test starts the service with the recipe's own words"
    return [command]


@pytest.mark.usefixtures("birds")
def test_the_librarys_python_runs_as_written() -> None:
    found: dict[str, object] = {}
    exec(compile(LEARNING, "README.md", "exec"), found)

    assert found["names"] == found["again"].classify(found["ImageFiles"](["photo.jpg"]), k=3)[1]  # type: ignore[attr-defined, operator]
    assert found["first"].prototypes.ids == ("digit-0", "digit-1")  # type: ignore[attr-defined]
    assert found["again"].prototypes.ids == ("digit-0", "digit-1", "digit-7")  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_curl_and_the_clients_python_run_as_written(
    sqlite_service: Service, birds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api = sqlite_service.serve()
    exec(compile(ASKING.replace("8000", str(api.port)), "README.md", "exec"), {})
    assert "publishing" in capsys.readouterr().out
    wait_until(lambda: api.version() == 1)

    awaiting = compile(AWAITING.replace("8000", str(api.port)), "README.md", "exec")
    exec(awaiting, {})
    assert capsys.readouterr().out.splitlines()[-1].startswith("done {")
    exec(awaiting, {})
    assert capsys.readouterr().out == "class_exists\n"

    shutil.make_archive("birds", "zip", save_digits(birds / "others", [5], count=4))
    post, stream = re.findall(r"`(curl [^`]+)`", section("From curl and Python"))
    [update] = re.findall(r'"id":"([^"]+)"', _shell(post.replace("8000", str(api.port)), birds, api.port))
    assert "event: done" in _shell(stream.replace("8000", str(api.port)).replace("ID", update), birds, api.port)


def _shell(script: str, folder: Path, port: int) -> str:
    """As somebody's who has just opened a terminal."""
    python = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
    environment = {"PATH": "/usr/bin:/bin", "ZSTCI_URL": f"http://127.0.0.1:{port}", **python}
    bash = shutil.which("bash")
    assert bash is not None
    words = [bash, "-euo", "pipefail", "-c", script]
    done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, timeout=PATIENCE * 5)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
