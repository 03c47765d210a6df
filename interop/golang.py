"""The Go driver: RocketMQ's Go client from Go's module proxy, built into the cache when its source changes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from interop.jars import HERE, cache_folder

_BUILD_TIMEOUT_S: Final = 600
_USUAL_PLACE: Final = "/usr/local/go/bin/go"


@cache
def go_driver() -> Path:
    """Its executable. Raises FileNotFoundError without Go, CalledProcessError, TimeoutExpired."""
    source = HERE / "go"
    digest = hashlib.sha256(b"".join((source / name).read_bytes() for name in ("main.go", "go.mod", "go.sum")))
    binary = cache_folder() / "go" / digest.hexdigest()[:16] / "driver"
    if not binary.exists():
        unfinished = binary.with_name(f"driver.{os.getpid()}")  # several test processes may build at once
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        go = shutil.which("go") or _USUAL_PLACE
        subprocess.run([go, "build", "-o", str(unfinished), "."], cwd=source, check=True, timeout=_BUILD_TIMEOUT_S)
        unfinished.replace(binary)
    return binary
