"""Two ways to run an image as the compose file does: read-only, its own user, no capabilities. And without a shell."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.container.oci import OciRuntime, output

__all__ = ["Engine", "Run", "engine_for"]

# Nothing can be executed there. Whatever the image does, it must do without.
_SHELLS = ("/bin/sh", "/bin/bash")


@dataclass(frozen=True)
class Run:
    """One container: `arguments` follow the image's entry point, none are its default command."""

    name: str
    arguments: Sequence[str] = ()
    program: Sequence[str] = ()
    """Instead of the entry point."""
    environment: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, str] = field(default_factory=lambda: {"/data": "data"})
    """Where each named volume is mounted."""
    memory: int = 0
    """In bytes; 0: any."""


class Engine(Protocol):
    about: str
    health_check: list[str]

    def command(self, run: Run) -> list[str]:
        """What to start here. Its signals and its exit code are the container's."""

    def inside(self, name: str, program: Sequence[str]) -> list[str]:
        """What to start for another process in a container that runs, as a health check is."""


class DockerEngine:
    def __init__(self, image: str, mark: str) -> None:
        self._image, self._mark = image, mark
        [about] = json.loads(output("docker", "image", "inspect", image))
        self.health_check: list[str] = about["Config"]["Healthcheck"]["Test"][1:]
        version = output("docker", "version", "--format", "{{.Server.Version}}")
        self.about = f"Docker {version}, an image of {about['Size'] / 1e9:.2f} GB"

    def command(self, run: Run) -> list[str]:
        command = ["docker", "run", "--rm", "--name", f"{self._mark}-{run.name}", "--network", "host"]
        command += ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        command += [part for shell in _SHELLS for part in ("-v", f"/dev/null:{shell}:ro")]
        command += [part for place, name in run.volumes.items() for part in ("-v", f"{self._mark}-{name}:{place}")]
        command += [part for name, value in run.environment.items() for part in ("-e", f"{name}={value}")]
        command += ["--memory", str(run.memory)] if run.memory else []
        command += ["--entrypoint", run.program[0]] if run.program else []
        return [*command, self._image, *run.program[1:], *run.arguments]

    def inside(self, name: str, program: Sequence[str]) -> list[str]:
        return ["docker", "exec", f"{self._mark}-{name}", *program]

    def forget(self) -> None:
        volumes = output("docker", "volume", "ls", "-q", "--filter", f"name={self._mark}-").split()
        subprocess.run(["docker", "volume", "rm", "-f", *volumes], capture_output=True)


@contextmanager
def engine_for(image: str) -> Iterator[Engine]:
    """A running Docker engine if there is one, else buildah and runc. Nothing of it stays."""
    mark = f"zstci-check-{uuid.uuid4().hex[:8]}"
    runtime = shutil.which("runc") or shutil.which("crun")
    if shutil.which("docker") and subprocess.run(["docker", "info"], capture_output=True).returncode == 0:
        docker = DockerEngine(image, mark)
        try:
            yield docker
        finally:
            docker.forget()
    elif shutil.which("buildah") and runtime:
        container = output("buildah", "from", "--pull-never", image)
        try:
            with tempfile.TemporaryDirectory(prefix=f"{mark}-") as folder:
                root = Path(output("buildah", "mount", container))
                yield OciRuntime(runtime, image, root, Path(folder), _SHELLS)
        finally:
            subprocess.run(["buildah", "umount", container], capture_output=True)
            subprocess.run(["buildah", "rm", container], capture_output=True)
    else:
        raise SystemExit("make image-check needs a running Docker engine, or root, buildah and runc")
