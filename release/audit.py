"""Known vulnerabilities of what PyroMQ installs and links, as pip-audit and cargo audit know them."""

from __future__ import annotations

import shutil
import subprocess
import sys

from release.building import ROOT, tool

_UNREACHED = "could not be audited"


def main() -> int:
    """Exit code 0: nothing known; 1: something is; 2: nobody could be asked, which is no good news either."""
    asked = [tool("pip-audit"), "--disable-pip", "--no-deps", "--requirement", ROOT / "requirements-dev.txt"]
    python = subprocess.run(asked, capture_output=True, text=True, check=False)
    unknown = python.stdout.count(_UNREACHED) + python.stderr.count(_UNREACHED)
    print(
        python.stdout if not unknown else f"pip-audit: no data for {unknown} packages: its database cannot be reached"
    )
    codes = [2 if unknown else int(bool(python.returncode))]
    if shutil.which("cargo-audit"):
        codes.append(int(bool(subprocess.run(["cargo", "audit"], cwd=ROOT / "core", check=False).returncode)))
    else:
        print("cargo audit: not installed (cargo install cargo-audit)")
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
