"""Does an image do what it is for? python -m tests.container.verify IMAGE

Runs it with a read-only root file system as its own user: who it is, `zstci doctor`, the service, an update, a query,
the health check, an orderly end, and a second start on the same volume.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.container.engines import Engine, engine_for
from tests.pictures import archive, picture

_PATIENCE = 300.0
_PYTHON = "/opt/zstci/bin/python"
_WHO = """
import os
def writable(path):
    try:
        open(path + "/probe", "w").close()
    except OSError:
        return False
    os.remove(path + "/probe")
    return True
print({"user": os.getuid(), "writable": [p for p in ("/", "/opt/zstci", "/etc", "/tmp", "/data") if writable(p)]})
"""


def main(image: str) -> None:
    with engine_for(image) as engine:
        _expect(_run(engine, "-c", _WHO, program=[_PYTHON]), "{'user': 10001, 'writable': ['/tmp', '/data']}")
        _doctor(engine)
        with _serving(engine) as http:
            _learn(http)
            first = _ask(http)
        with _serving(engine) as http:
            _expect(json.dumps(_ask(http)), json.dumps(first))
    _say("all well")


def _doctor(engine: Engine) -> None:
    # Not in every version of the program; where it is, it must be content.
    if " doctor " in _run(engine, "--help"):
        _say(_run(engine, "doctor"))


def _learn(http: httpx.Client) -> None:
    sent = http.post("/v1/updates", files={"archive": ("digits.tar", archive(range(4), count=8))})
    sent.raise_for_status()
    update = sent.json()
    while update["ended_at"] is None:
        time.sleep(0.5)
        update = http.get(f"/v1/updates/{update['id']}").json()
    _expect(update["state"], "succeeded")
    _say(f"version {update['version']}: {update['metrics']}")


def _ask(http: httpx.Client) -> dict[str, object]:
    while http.get("/readyz").status_code != 200:
        time.sleep(0.2)
    [answer] = http.post("/v1/classify?top_k=3", content=picture(2, 50)).raise_for_status().json()["data"]
    _say(json.dumps(answer))
    found: dict[str, object] = answer
    return found


@contextmanager
def _serving(engine: Engine) -> Iterator[httpx.Client]:
    """`zstci serve`, up and healthy; ended by SIGTERM, with a good exit code."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = engine.command("serve", "--host", "127.0.0.1", "--port", str(port))
    process = subprocess.Popen(command, stdout=sys.stderr)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=_PATIENCE) as http:
            _wait(http, process)
            check = [part.replace("'8000'", f"'{port}'") for part in engine.health_check]
            _run(engine, program=check)
            _say("healthy")
            yield http
        process.send_signal(signal.SIGTERM)
        _expect(str(process.wait(60)), "0")
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)


def _wait(http: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            http.get("/healthz").raise_for_status()
        except httpx.TransportError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit("the service in the image does not answer")


def _run(engine: Engine, *arguments: str, program: list[str] | None = None) -> str:
    done = subprocess.run(engine.command(*arguments, program=program or ()), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode} of {[*(program or ['zstci']), *arguments]}\n{done.stderr}")
    return done.stdout.strip()


def _expect(found: str, wanted: str) -> None:
    if found != wanted:
        raise SystemExit(f"found {found}, wanted {wanted}")
    _say(found)


def _say(what: str) -> None:
    print(what, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
