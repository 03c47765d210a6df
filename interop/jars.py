"""What comes from outside: RocketMQ's jars through Maven, and our Java driver compiled against them.

    ${XDG_CACHE_HOME:-~/.cache}/pyromq-interop/5.5.0/lib/*.jar        copied there by Maven, once
                                              5.5.0/driver-…/         the driver, compiled anew when its source changes

Nothing of it is in git. ``PYROMQ_INTEROP_VERSION`` chooses another version than that of ``pom.xml``.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
_FETCH_TIMEOUT_S = 900
_COMPILE_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Jars:
    version: str
    folder: Path

    @property
    def class_path(self) -> str:
        return f"{self.classes}:{self.folder / 'lib'}/*"

    @property
    def classes(self) -> Path:
        """Of the driver as its source is now."""
        digest = hashlib.sha256(b"".join(source.read_bytes() for source in _sources())).hexdigest()
        return self.folder / f"driver-{digest[:16]}"


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyromq-interop"


def prepare_jars() -> Jars:
    """Fetches and compiles what is missing. Raises CalledProcessError, TimeoutExpired."""
    version = os.environ.get("PYROMQ_INTEROP_VERSION") or _version_of_pom()
    jars = Jars(version, cache_folder() / version)
    _fetch(jars)
    _compile(jars)
    return jars


def _version_of_pom() -> str:
    found = re.search(r"<rocketmq.version>(.+?)</", (HERE / "pom.xml").read_text())
    assert found is not None, "pom.xml names no version"
    return found[1]


def _fetch(jars: Jars) -> None:
    done = jars.folder / f"fetched-{hashlib.sha256((HERE / 'pom.xml').read_bytes()).hexdigest()[:16]}"
    if done.exists():
        return
    command = ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), f"-Drocketmq.version={jars.version}"]
    command += ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars.folder / 'lib'}"]
    subprocess.run(command, check=True, timeout=_FETCH_TIMEOUT_S)
    done.touch()


def _compile(jars: Jars) -> None:
    if jars.classes.exists():
        return
    unfinished = jars.folder / f"unfinished-{os.getpid()}"  # several test processes may compile at once
    command = ["javac", "-nowarn", "-d", str(unfinished), "-cp", f"{jars.folder / 'lib'}/*"]
    subprocess.run([*command, *map(str, _sources())], check=True, timeout=_COMPILE_TIMEOUT_S)
    with contextlib.suppress(OSError):
        unfinished.rename(jars.classes)
    shutil.rmtree(unfinished, ignore_errors=True)


def _sources() -> list[Path]:
    return sorted((HERE / "java").rglob("*.java"))
