"""Without an engine: what buildah built, mounted, and run by runc or crun. Needs root."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.container.engines import Run

__all__ = ["OciRuntime", "output"]

# Those that a container of its own still has; the network is this machine's, so that its loopback can be asked.
_NAMESPACES = ("pid", "ipc", "uts", "mount")


class OciRuntime:
    def __init__(self, runtime: str, image: str, root: Path, folder: Path, shells: Sequence[str]) -> None:
        self._root, self._folder, self._shells = root, folder, shells
        self._runtime = [runtime, "--root", str(folder / "state")]
        about = json.loads(output("buildah", "inspect", "--type", "image", image))
        self._config: dict[str, Any] = about["Docker"]["config"]
        self.health_check: list[str] = self._config["Healthcheck"]["Test"][1:]
        [size] = {found["size"] for found in json.loads(output("buildah", "images", "--json", image))}
        version = " ".join(output(runtime, "--version").splitlines()[0].split()[::2])
        self.about = f"{version}, an image of {size}"

    def command(self, run: Run) -> list[str]:
        bundle = self._folder / "bundles" / run.name
        shutil.rmtree(bundle, ignore_errors=True)
        bundle.mkdir(parents=True)
        subprocess.run([*self._runtime, "spec"], cwd=bundle, check=True)
        path = bundle / "config.json"
        path.write_text(json.dumps(self._filled(json.loads(path.read_text()), run)))
        return [*self._runtime, "run", "--bundle", str(bundle), self._id(run.name)]

    def inside(self, name: str, program: Sequence[str]) -> list[str]:
        return [*self._runtime, "exec", self._id(name), *program]

    def _id(self, name: str) -> str:
        return f"{self._folder.name}-{name}"  # ids are this machine's, whatever the folder of the state

    def _filled(self, spec: dict[str, Any], run: Run) -> dict[str, Any]:
        """The runtime's own example of a container, made ours."""
        user, _, group = self._config["User"].partition(":")
        program = run.program or self._config["Entrypoint"]
        arguments = run.arguments or ([] if run.program else self._config["Cmd"])
        spec["process"] |= {
            "terminal": False,
            "user": {"uid": int(user), "gid": int(group)},
            "args": [*program, *arguments],
            "env": [*self._config["Env"], *(f"{name}={value}" for name, value in run.environment.items())],
            "cwd": self._config["WorkingDir"],
            "capabilities": {},
            "noNewPrivileges": True,
        }
        spec["root"] = {"path": str(self._root), "readonly": True}
        spec["hostname"] = run.name
        spec["mounts"] = [mount for mount in spec["mounts"] if mount["type"] != "cgroup"] + self._mounts(run)
        spec["linux"]["namespaces"] = [{"type": kind} for kind in _NAMESPACES]
        if run.memory:
            spec["linux"]["resources"]["memory"] = {"limit": run.memory}
        return spec

    def _mounts(self, run: Run) -> list[dict[str, Any]]:
        mounts: list[dict[str, Any]] = [{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}]
        for shell in self._shells:
            mounts.append(_bound("/dev/null", shell, "ro"))
        for place, name in run.volumes.items():
            mounts.append(_bound(str(self._volume(name, place)), place, "rw"))
        return mounts

    def _volume(self, name: str, place: str) -> Path:
        """As engines do it, a new one takes the owner of the folder that it is mounted on."""
        volume, there = self._folder / "volumes" / name, (self._root / place.lstrip("/")).stat()
        if not volume.is_dir():
            volume.mkdir(parents=True)
            shutil.chown(volume, there.st_uid, there.st_gid)
        return volume


def _bound(source: str, place: str, how: str) -> dict[str, Any]:
    return {"destination": place, "type": "bind", "source": source, "options": ["bind", how]}


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
