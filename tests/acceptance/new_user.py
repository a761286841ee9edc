"""What a new user does, in a fresh clone and without a setting: make serve, add a folder of photos, ask with curl.

ZSTCI_DATA=/where/cub-mini/is python -m tests.acceptance.new_user

The photo that is asked about is one of the test folder, so it was never sent to learn from.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

__all__ = ["main"]

_SPECIES = 10
_HERE = Path(__file__).parents[2]


def main() -> None:
    if "ZSTCI_DATA" not in os.environ:
        sys.exit("set ZSTCI_DATA to the folder that holds cub-mini/train/SPECIES/photo.jpg and cub-mini/test")
    photos = Path(os.environ["ZSTCI_DATA"]) / "cub-mini"
    species = sorted((photos / "train").iterdir())[:_SPECIES]
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("ZSTCI_", "PYTHONPATH"))}
    with tempfile.TemporaryDirectory() as folder:
        clone, birds = Path(folder) / "clone", Path(folder) / "birds"
        birds.mkdir()
        for path in species:
            (birds / path.name).symlink_to(path)
        subprocess.run(["git", "clone", "--quiet", str(_HERE), str(clone)], check=True)
        serving = subprocess.Popen(["make", "serve"], cwd=clone, env=plain, start_new_session=True)
        try:
            begun = time.monotonic()
            _until_it_answers(serving)
            print(f"up after {time.monotonic() - begun:.0f} s")
            begun = time.monotonic()
            subprocess.run([clone / ".venv/bin/zstci", "add", birds], check=True, cwd=clone, env=plain)
            print(f"{_SPECIES} species added after {time.monotonic() - begun:.1f} s")
            photo = min((photos / "test" / species[0].name).glob("*.jpg"))
            answer = _curl("--data-binary", f"@{photo}", "http://localhost:8000/v1/classify?top_k=2")
            print(answer)
            best = json.loads(answer)["data"][0]["predictions"][0]["name"]
            print(f"{photo.name} is {best}, " + ("which is right" if best == species[0].name else "which is wrong"))
        finally:
            os.killpg(serving.pid, signal.SIGTERM)
            serving.wait(60)


def _until_it_answers(serving: subprocess.Popen[bytes]) -> None:
    while subprocess.run(["curl", "-sf", "http://localhost:8000/healthz"], capture_output=True, check=False).returncode:
        if serving.poll() is not None:
            sys.exit("make serve has ended; see above")
        time.sleep(1)


def _curl(*arguments: str) -> str:
    return subprocess.run(["curl", "-sSf", *arguments], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
