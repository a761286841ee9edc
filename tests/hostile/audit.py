"""`make audit`: the pinned packages against the advisories that pip-audit asks for. Exit code 1: it found some."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PINS = Path(__file__).parents[2] / "constraints.txt"


def main() -> int:
    run = subprocess.run(
        [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "-f", "json", "-r", str(PINS)],
        capture_output=True,
        text=True,
    )
    try:
        packages = json.loads(run.stdout)["dependencies"]
    except ValueError:
        reason = (run.stderr.strip().splitlines() or ["no answer"])[-1]
        print(f"not audited, because pip-audit could not ask for advisories: {reason[:200]}")
        return 0
    # Where the advisories are out of reach pip-audit skips every package, and calls that "no known vulnerabilities".
    skipped = [package for package in packages if "skip_reason" in package]
    if len(skipped) == len(packages):
        print(f"not audited, because no advisory could be asked for: all {len(packages)} packages were skipped")
        return 0
    faults = [(package, fault) for package in packages for fault in package.get("vulns", ())]
    for package, fault in faults:
        print(f"{package['name']} {package['version']}: {fault['id']}, fixed in {', '.join(fault['fix_versions'])}")
    print(f"{len(packages) - len(skipped)} packages audited, {len(skipped)} skipped, {len(faults)} advisories")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
