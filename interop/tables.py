"""A second Spark, of the newest version that Delta has a package for, with that package: what archives of tables need.

${XDG_CACHE_HOME:-~/.cache}/pyromq-interop/spark-4.2.1/bin/python        from PyPI, about 600 MB, once
                                          delta-4.4.0/*.jar             from Maven, once
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interop.jars import cache_folder

SPARK: Final = "4.2.1"
DELTA: Final = "4.4.0"
ROOT: Final = Path(__file__).parents[1]
_PACKAGES: Final = (f"pyspark=={SPARK}", "pyarrow>=18", "numpy>=1.26")
_GROUPS: Final = "io.delta,io.unitycatalog,org.roaringbitmap"  # the rest comes with Spark
_FETCH_TIMEOUT_S: Final = 1_800
_POM: Final = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pyromq</groupId>
  <artifactId>tables</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>io.delta</groupId>
      <artifactId>delta-spark_{SPARK.rpartition(".")[0]}_2.13</artifactId>
      <version>{DELTA}</version>
    </dependency>
  </dependencies>
</project>
"""


@dataclass(frozen=True, slots=True)
class TableSpark:
    python: Path
    jars: tuple[Path, ...]


def prepare_table_spark() -> TableSpark:
    """Fetches what is missing. Raises CalledProcessError, TimeoutExpired."""
    return TableSpark(_environment(), _jars())


def _environment() -> Path:
    folder = cache_folder() / f"spark-{SPARK}"
    python, done = folder / "bin" / "python", folder / "fetched"
    if not done.exists():
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(str(python), "-m", "pip", "install", "--quiet", "--editable", str(ROOT), *_PACKAGES)
        done.touch()
    return python


def _jars() -> tuple[Path, ...]:
    folder = cache_folder() / f"delta-{DELTA}"
    done = folder / "fetched"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(_POM)
        command = ["mvn", "-q", "-B", "-f", str(folder / "pom.xml"), "dependency:copy-dependencies"]
        _run(*command, f"-DincludeGroupIds={_GROUPS}", f"-DoutputDirectory={folder}")
        done.touch()
    return tuple(sorted(folder.glob("*.jar")))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=_FETCH_TIMEOUT_S)
