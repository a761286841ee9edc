"""Two ways to run an image with a read-only root, as its own user, on this machine's loopback."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

__all__ = ["Engine", "engine_for"]

# The mounts are in a namespace of the process, so they end with it, however it ends.
_IN_THE_ROOT = """
set -e
mount --make-rprivate /
mount --bind "$ROOT" "$ROOT"
mount -o remount,bind,ro "$ROOT"
mount -t proc proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
mount -t tmpfs tmpfs "$ROOT/tmp"
mount --bind "$DATA" "$ROOT/data"
exec "$@"
"""


class Engine(Protocol):
    health_check: list[str]

    def command(self, *arguments: str, program: Sequence[str] = ()) -> list[str]:
        """What to start here for these arguments of the image, or for another program in it."""


class DockerEngine:
    def __init__(self, image: str, volume: str) -> None:
        self._image, self._volume = image, volume
        [about] = json.loads(_output("docker", "image", "inspect", image))
        self.health_check: list[str] = about["Config"]["Healthcheck"]["Test"][1:]

    def command(self, *arguments: str, program: Sequence[str] = ()) -> list[str]:
        run = ["docker", "run", "--rm", "--read-only", "--tmpfs", "/tmp", "--network", "host", "--cap-drop", "ALL"]
        instead = ["--entrypoint", program[0]] if program else []
        return [*run, "-v", f"{self._volume}:/data", *instead, self._image, *program[1:], *arguments]


class RootFileSystem:
    """Without an engine: what buildah built, mounted and entered. Needs root."""

    def __init__(self, image: str, root: Path, data: Path) -> None:
        self._root, self._data = root, data
        self._config: dict[str, Any] = json.loads(_output("buildah", "inspect", "--type", "image", image))["Docker"][
            "config"
        ]
        self.health_check: list[str] = self._config["Healthcheck"]["Test"][1:]
        user, _, group = self._config["User"].partition(":")
        shutil.chown(data, int(user), int(group))

    def command(self, *arguments: str, program: Sequence[str] = ()) -> list[str]:
        chroot = [str(shutil.which("chroot")), f"--userspec={self._config['User']}", str(self._root)]
        inside = ["env", "-i", *self._config["Env"], *chroot, *(program or self._config["Entrypoint"]), *arguments]
        places = [f"ROOT={self._root}", f"DATA={self._data}"]
        return ["env", *places, "unshare", "--mount", "sh", "-c", _IN_THE_ROOT, "sh", *inside]


@contextmanager
def engine_for(image: str) -> Iterator[Engine]:
    """A running Docker engine if there is one, else buildah. Nothing of it stays."""
    if shutil.which("docker") and subprocess.run(["docker", "info"], capture_output=True).returncode == 0:
        volume = f"zstci-check-{uuid.uuid4().hex[:8]}"
        try:
            yield DockerEngine(image, volume)
        finally:
            subprocess.run(["docker", "volume", "rm", "-f", volume], capture_output=True)
    elif shutil.which("buildah"):
        container = _output("buildah", "from", "--pull-never", image)
        try:
            with tempfile.TemporaryDirectory(prefix="zstci-check-") as data:
                yield RootFileSystem(image, Path(_output("buildah", "mount", container)), Path(data))
        finally:
            subprocess.run(["buildah", "umount", container], capture_output=True)
            subprocess.run(["buildah", "rm", container], capture_output=True)
    else:
        raise SystemExit("make image-check needs a running Docker engine, or buildah and root")


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
