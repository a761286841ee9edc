"""Dockerfile and docker-compose.yml fit the program. `make image` and `make image-check` build and run it for real."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from service.config import Settings

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE_TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE = yaml.safe_load(COMPOSE_TEXT)
OURS = ("migrate", "api", "worker", "worker-gpu")
SETTINGS = {f"ZSTCI_{name.upper()}" for name in Settings.model_fields}
PROFILES: tuple[list[str], ...] = ([], ["gpu"], ["s3"], ["gpu", "s3"])


def compose() -> list[str]:
    """Docker's plugin, or the same program by itself, as Debian 13's package docker-compose has it. Not version 1."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]):
            said = subprocess.run([*command, "version", "--short"], capture_output=True, text=True)
            if said.returncode == 0 and not said.stdout.startswith("1."):
                return command
    return []


def configured(profiles: list[str], **environment: str) -> dict[str, Any]:
    """What compose makes of the file; no engine is needed for that."""
    command = [*compose(), "--project-directory", str(ROOT), "--env-file", os.devnull]
    chosen = [part for profile in profiles for part in ("--profile", profile)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ZSTCI_", "AWS_", "POSTGRES_"))}
    done = subprocess.run(
        [*command, *chosen, "config", "--format", "json"], capture_output=True, text=True, env=kept | environment
    )
    assert done.returncode == 0, done.stderr
    assert "level=warning" not in done.stderr, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


needs_compose = pytest.mark.skipif(
    not compose(), reason="needs compose 2 (`docker compose version` or `docker-compose version`), but no engine"
)


@needs_compose
@pytest.mark.parametrize("profiles", PROFILES, ids=lambda profiles: "+".join(profiles) or "default")
def test_compose_accepts_the_file_with_each_profile(profiles):
    services = configured(profiles, POSTGRES_PASSWORD="secret-1")["services"]

    extra = {"gpu": {"worker-gpu"}, "s3": {"s3"}}
    assert set(services) == {"postgres", "migrate", "api", "worker"}.union(*(extra[name] for name in profiles))
    for name, service in services.items():
        assert service["deploy"]["resources"]["limits"].keys() >= {"cpus", "memory"}, name


@needs_compose
def test_keys_of_a_bucket_are_handed_on_only_if_they_are_there():
    without = configured([], POSTGRES_PASSWORD="secret-1")["services"]["api"]["environment"]
    keys = {"AWS_ACCESS_KEY_ID": "someone", "AWS_ENDPOINT_URL": "http://s3:9000"}
    having = configured(["s3"], POSTGRES_PASSWORD="secret-1", **keys)["services"]["worker"]["environment"]

    assert not any(without.get(name) for name in keys)
    assert having.items() >= keys.items()


@needs_compose
def test_without_a_password_nothing_starts():
    with pytest.raises(AssertionError, match="set POSTGRES_PASSWORD"):
        configured([])


@needs_compose
def test_compose_waits_for_the_store_only_where_it_is_chosen():
    without = configured([], POSTGRES_PASSWORD="secret-1")["services"]
    having = configured(["s3"], POSTGRES_PASSWORD="secret-1")["services"]

    assert "s3" not in without
    for services in (without, having):
        for name in ("api", "worker"):
            waits = services[name]["depends_on"]["s3"]
            assert (waits["condition"], waits["required"]) == ("service_healthy", False), name
    assert having["s3"]["healthcheck"]


@pytest.mark.parametrize("name", OURS)
def test_every_variable_of_a_container_is_a_setting(name):
    given = {variable for variable in COMPOSE["services"][name]["environment"] if variable.startswith("ZSTCI_")}

    assert given
    assert given <= SETTINGS


def test_every_variable_of_the_image_is_a_setting():
    assert set(re.findall(r"\b(ZSTCI_[A-Z_]+)=", DOCKERFILE)) <= SETTINGS


def test_every_container_of_ours_may_write_only_where_it_must():
    for service in (COMPOSE["services"][name] for name in OURS):
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "artifacts:/artifacts" in service["volumes"], "an upload that one takes reaches the one that learns"


def test_what_stays_up_is_looked_after():
    for name, service in COMPOSE["services"].items():
        if name != "migrate":
            assert service["restart"] == "unless-stopped", name
        assert name == "api" or service["healthcheck"], name
    assert "/healthz" in DOCKERFILE.partition("HEALTHCHECK")[2], "the API's own is the image's"


def test_what_others_make_is_a_release_that_stays_what_it_is():
    for name in ("postgres", "s3"):
        [tag] = re.findall(r"\$\{[A-Z0-9_]+:-[a-z0-9/]+:(\S+)\}", COMPOSE["services"][name]["image"])
        assert re.search(r"\d", tag), name


def test_whatever_runs_in_a_container_does_without_a_shell():
    """`make image-check` takes the shells away."""
    for name in ("ENTRYPOINT", "CMD"):
        for words in re.findall(rf"^ *{name} (.*)$", DOCKERFILE, re.MULTILINE):
            assert isinstance(json.loads(words), list)
    for name, service in COMPOSE["services"].items():
        assert service.get("healthcheck", {}).get("test", ["CMD"])[0] == "CMD", name
        assert isinstance(service.get("command", []), list), name


def test_replicas_have_a_port_each_on_this_machine_only():
    [ports] = COMPOSE["services"]["api"]["ports"]
    first, last = map(int, re.findall(r"127\.0\.0\.1:\$\{ZSTCI_PORTS:-(\d+)-(\d+)\}:8000", ports)[0])
    replicas = re.findall(r"\$\{ZSTCI_REPLICAS:-(\d+)\}", str(COMPOSE["services"]["api"]["deploy"]["replicas"]))

    assert [str(last - first + 1)] == replicas


def test_workers_that_are_scaled_are_named_after_their_containers():
    for name in ("worker", "worker-gpu"):
        assert COMPOSE["services"][name]["environment"]["ZSTCI_WORKER_ID"] == ""
    assert Settings(worker_id="").worker_name == os.uname().nodename
    assert Settings(worker_id="left").worker_name == "left"


def test_the_image_gets_all_that_the_package_is_built_from():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = {name.partition(".")[0] for name in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    about = project["project"]
    needed = {*packages, "pyproject.toml", "constraints.txt", about["readme"], *about["license-files"]}
    copied = {
        source
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    }
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}

    assert copied == let_in == needed
    assert all((ROOT / path).exists() for path in needed)


def test_the_image_runs_as_nobody_in_particular_and_its_folders_belong_to_it():
    [user] = re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE)
    number, group = user.split(":")

    assert int(number) > 0
    assert int(group) > 0
    assert f"os.chown(path, {number}, {group})" in DOCKERFILE
    for folder in ("/data", "/artifacts"):
        assert f"'{folder}'" in DOCKERFILE
