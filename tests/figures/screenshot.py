"""A photograph of /docs as a visitor sees it: a real service, a real browser (Debian's `chromium`).

python -m tests.figures.screenshot
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.processes import Service

__all__ = ["photograph"]

_TARGET = Path(__file__).parent / "docs.png"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# As root a sandbox cannot be had; the rest keeps the browser from asking for anything but our page.
_FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"]
_QUIET = ["--disable-background-networking", "--disable-component-update", "--disable-sync"]


def photograph(target: Path = _TARGET) -> None:
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        sys.exit("no browser found; install Debian's package chromium, then run this again")
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder) / "home", "")
        try:
            page = f"{service.serve('api').http.base_url}/docs"
            profile, size = f"--user-data-dir={folder}/profile", "--window-size=1200,1500"
            # Time as the page feels it: long enough for its scripts to have drawn everything.
            rest = [profile, size, "--virtual-time-budget=15000", f"--screenshot={target}", page]
            subprocess.run([browser, *_FLAGS, *_QUIET, *rest], check=True, capture_output=True, timeout=120)
        finally:
            service.end()


if __name__ == "__main__":
    photograph()
