"""Does an image do what it is for? python -m tests.container.verify IMAGE

First as the README runs it, in one container; then as docker-compose.yml does, in several on a real PostgreSQL.
What came of it is in tests/container/results.md.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import httpx

from tests.container.composed import composed, health_check
from tests.container.engines import Engine, Run, engine_for
from tests.container.postgres import postgres_on_loopback
from tests.container.report import Report
from tests.container.running import PYTHON, ended, free_port, healthy, said, serving, started, wait_until
from tests.pictures import archive, picture

_KEY = ("keys", "create", "first", "--scope", "admin")
_WHO = """
import os, subprocess
def writable(path):
    try:
        open(path + "/probe", "w").close()
    except OSError:
        return False
    os.remove(path + "/probe")
    return True
def runs(program):
    try:
        return not subprocess.run([program, "-c", ":"]).returncode
    except OSError:
        return False
about = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
print("user", os.getuid(), "process", os.getpid(), "capabilities", int(about["CapBnd"], 16))
print("may write", *(path for path in ("/", "/opt/zstci", "/etc", "/tmp", "/data") if writable(path)))
print("shells", *(path for path in ("/bin/sh", "/bin/bash") if runs(path)))
"""


def main(image: str) -> None:
    with engine_for(image) as engine:
        report = Report(engine.about)
        _alone(engine, report)
        _together(engine, report)
        report.write()


def _alone(engine: Engine, report: Report) -> None:
    who = said(engine, Run("who", ["-c", _WHO], program=[PYTHON]))
    report.expect("who it is", " / ".join(who.splitlines()), _EXPECTED)
    service = Run("serve", environment={"ZSTCI_PORT": str(free_port())})
    refused = ended(engine, service)
    advice = "zstci keys create NAME --scope admin" in refused.stderr
    report.expect("the default command without a key: exit code, advice", (refused.returncode, advice), (3, True))
    key = said(engine, Run("key", _KEY))
    report.doctor(said(engine, Run("doctor", ["doctor"])))
    with serving(engine, service) as http:
        report.found("the default command with a key", "healthy")
        report.expect("a query without the key", _ask(http).status_code, 401)
        http.headers["Authorization"] = f"Bearer {key}"
        report.found("an update of four classes", _learnt(http))
        first = _answer(http)
        report.found("a query with the key", _shown(first))
    report.found("SIGTERM", "exit code 0")
    with serving(engine, service) as http:
        http.headers["Authorization"] = f"Bearer {key}"
        report.expect("the same after a second start on the volume", _answer(http) == first, True)


def _together(engine: Engine, report: Report) -> None:
    check = health_check("worker")
    with postgres_on_loopback() as database:
        at = {"ZSTCI_DATABASE_URL": database}
        said(engine, composed("migrate", "migrate", **at))
        report.found("compose: migrate", "exit code 0")
        key = said(engine, composed("api", "key", *_KEY, **at))
        replicas = [composed("api", name, **at, ZSTCI_PORT=str(free_port())) for name in ("api-1", "api-2")]
        worker = composed("worker", "worker", **at)
        idle = Run("no-worker", program=check, volumes={"/data": "of-nobody"})
        report.expect("compose: the worker's health check without a worker", ended(engine, idle).returncode, 1)
        with serving(engine, replicas[0]) as one, serving(engine, replicas[1]) as other, started(engine, worker):
            wait_until(lambda: healthy(engine, worker.name, check), "the worker to be healthy")
            report.found("compose: two of api and a worker", "healthy")
            report.expect("compose: a query without the key", _ask(one).status_code, 401)
            for http in (one, other):
                http.headers["Authorization"] = f"Bearer {key}"
            report.found("compose: an update of four classes", _learnt(one))
            first = _answer(one)
            report.found("compose: a query to the first", _shown(first))
            report.expect("compose: the second answers the same", _answer(other) == first, True)
    report.found("compose: SIGTERM to each", "exit code 0")


_EXPECTED = "user 10001 process 1 capabilities 0 / may write /tmp /data / shells"


def _learnt(http: httpx.Client) -> str:
    sent = http.post("/v1/updates", files={"archive": ("digits.tar", archive(range(4), count=8))})
    update = sent.raise_for_status().json()
    while update["ended_at"] is None:
        time.sleep(0.5)
        update = http.get(f"/v1/updates/{update['id']}").json()
    if update["state"] != "succeeded":
        raise SystemExit(f"the update {update['state']}: {update}")
    return f"version {update['version']}, accuracy {update['metrics']['accuracy']:.0f}"


def _ask(http: httpx.Client) -> httpx.Response:
    return http.post("/v1/classify?top_k=3", content=picture(2, 50))


def _answer(http: httpx.Client) -> dict[str, Any]:
    wait_until(lambda: http.get("/readyz").status_code == 200, "the version to be live")
    [answer] = _ask(http).raise_for_status().json()["data"]
    found: dict[str, Any] = answer
    return found


def _shown(answer: dict[str, Any]) -> str:
    hits = ", ".join(f"{hit['name']} at {hit['distance']:.4f}" for hit in answer["predictions"])
    return f"version {answer['version']}: {hits}"


if __name__ == "__main__":
    main(sys.argv[1])
