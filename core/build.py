"""Builds the compiled core into the running environment; says in one line what came of it, and never fails.

    .venv/bin/python core/build.py

PyroMQ works without it. Where there is no cargo, no network for its crates, or a build that takes too long, that is how
it goes on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

BUILD_S = 600
_HERE = Path(__file__).parent
_SWITCH = "PYROMQ_PURE"


def main() -> None:
    print(f"compiled core: {build()}")


def build() -> str:
    """What came of it."""
    if os.environ.get(_SWITCH):
        return f"not built, {_SWITCH} is set; pure Python goes on"
    if shutil.which("cargo") is None:
        return "not built, there is no cargo (https://rustup.rs); pure Python goes on"
    patience = {"CARGO_NET_RETRY": "1", "CARGO_HTTP_TIMEOUT": "20"}  # of cargo, where nothing can be fetched
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(_HERE)]
    try:
        done = subprocess.run(
            command, env={**patience, **os.environ}, capture_output=True, text=True, timeout=BUILD_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"not built, {error}; pure Python goes on"
    if done.returncode:
        lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if "rror" in line]
        return f"not built, {lines[0] if lines else 'pip failed'}; pure Python goes on"
    return "built; PYROMQ_PURE=1 does without it"


if __name__ == "__main__":
    main()
