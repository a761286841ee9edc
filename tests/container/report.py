"""What was found, said at once and kept as a table."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["Report"]

_RESULTS = Path(__file__).with_name("results.md")


class Report:
    def __init__(self, about: str) -> None:
        self._about, self._rows, self._doctor = about, list[str](), ""
        self._since = time.monotonic()

    def expect(self, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            raise SystemExit(f"{what}: found {found}, wanted {wanted}")
        self.found(what, str(found))

    def found(self, what: str, found: str) -> None:
        took, self._since = time.monotonic() - self._since, time.monotonic()
        print(f"{what}: {found} ({took:.1f} s)", flush=True)
        self._rows.append(f"| {what} | {found} | {took:.1f} |")

    def doctor(self, text: str) -> None:
        print(text, flush=True)
        self._doctor, self._since = text, time.monotonic()

    def write(self) -> None:
        parts = [
            "# The container image, tried out",
            f"Written by `make image-check`: {self._about}, {os.cpu_count()} cores. Every container has a read-only "
            "root, a user of its own, no capabilities and no shell.",
            "\n".join(["| What | Found | Seconds |", "|---|---|---|", *self._rows]),
            "`zstci doctor` in it:",
            f"```\n{self._doctor}\n```",
        ]
        _RESULTS.write_text("\n\n".join(parts) + "\n")
        print("all well", flush=True)
