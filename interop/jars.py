"""What comes from outside: RocketMQ's jars through Maven, and our Java driver compiled against them.

    ${XDG_CACHE_HOME:-~/.cache}/pyromq-interop/5.5.0/lib/*.jar        copied there by Maven, once
                                              5.5.0/classes/…         the driver, compiled anew when its source changes

Nothing of it is in git. ``PYROMQ_INTEROP_VERSION`` chooses another version than that of ``pom.xml``.
"""

from __future__ import annotations

import hashlib
import os
import re
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
        return f"{self.folder / 'classes'}:{self.folder / 'lib'}/*"


def prepare_jars() -> Jars:
    """Fetches and compiles what is missing. Raises CalledProcessError, TimeoutExpired."""
    version = os.environ.get("PYROMQ_INTEROP_VERSION") or _version_of_pom()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyromq-interop"
    jars = Jars(version, cache / version)
    _fetch(jars)
    _compile(jars)
    return jars


def _version_of_pom() -> str:
    found = re.search(r"<rocketmq.version>(.+?)</", (HERE / "pom.xml").read_text())
    assert found is not None, "pom.xml names no version"
    return found[1]


def _fetch(jars: Jars) -> None:
    done = jars.folder / "fetched"
    if done.exists():
        return
    command = ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), f"-Drocketmq.version={jars.version}"]
    command += ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars.folder / 'lib'}"]
    subprocess.run(command, check=True, timeout=_FETCH_TIMEOUT_S)
    done.touch()


def _compile(jars: Jars) -> None:
    sources = sorted((HERE / "java").rglob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    mark = jars.folder / "compiled"
    if mark.exists() and mark.read_text() == digest:
        return
    command = ["javac", "-nowarn", "-d", str(jars.folder / "classes"), "-cp", f"{jars.folder / 'lib'}/*"]
    subprocess.run([*command, *map(str, sources)], check=True, timeout=_COMPILE_TIMEOUT_S)
    mark.write_text(digest)
