"""The jar of the lane: compiled once, kept whole, a reason where there is none. A script stands for the compiler."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from pyromq.pipeline.spark.jvm.jar import SOURCES, NoLaneError, jar_for

COMPILER = """#!/bin/sh
echo "$@" >> {log}
while [ "$1" != "-d" ]; do shift; done
mkdir -p "$2/pyromq/lane" && echo class > "$2/pyromq/DefaultSource.class" && echo class > "$2/pyromq/lane/Lane.class"
"""
REFUSING = """#!/bin/sh
echo "Lane.java:3: error: cannot find symbol" >&2; echo "  more" >&2
exit 1
"""


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-sql_2.13-4.9.9.jar").touch()
    return tmp_path / "jars"


def compiler(folder: Path, text: str) -> Path:
    script = folder / "javac"
    script.write_text(text.format(log=folder / "log"))
    script.chmod(0o700)
    return script


def test_it_is_compiled_once_for_a_spark(tmp_path: Path, jars: Path) -> None:
    javac = compiler(tmp_path, COMPILER)
    made = [jar_for(jars, tmp_path / "cache", lambda: javac) for _ in range(2)]
    assert made[0] == made[1] and made[0].name.startswith("pyromq-lane-4.9.9-")
    (call,) = (tmp_path / "log").read_text().splitlines()
    assert f"-cp {jars}/*" in call and all(str(source) in call for source in SOURCES.glob("*.java"))
    with zipfile.ZipFile(made[0]) as archive:
        assert archive.namelist() == ["pyromq/DefaultSource.class", "pyromq/lane/Lane.class"]
    assert list((tmp_path / "cache").iterdir()) == [made[0]], "nothing half done is left"
    (jars / "spark-sql_2.13-4.9.9.jar").rename(jars / "spark-sql_2.13-5.0.0.jar")
    assert jar_for(jars, tmp_path / "cache", lambda: javac).name.startswith("pyromq-lane-5.0.0-")


def test_a_spark_that_it_does_not_fit_is_told_with_the_compilers_words(tmp_path: Path, jars: Path) -> None:
    with pytest.raises(NoLaneError, match=r"Lane\.java:3: error: cannot find symbol"):
        jar_for(jars, tmp_path / "cache", lambda: compiler(tmp_path, REFUSING))
    assert not list((tmp_path / "cache").iterdir())
    with pytest.raises(NoLaneError, match="could not be compiled"):
        jar_for(jars, tmp_path / "cache", lambda: tmp_path / "none")


def test_every_source_is_in_a_package_of_ours() -> None:
    sources = sorted(SOURCES.glob("*.java"))
    assert len(sources) > 10
    for source in sources:
        text = source.read_text(encoding="utf-8")
        assert re.match(r"package pyromq(\.lane)?;\n", text), source.name
        assert max(map(len, text.splitlines())) <= 140, source.name
        foreign = re.findall(r"^import (?:static )?(\w+\.\w+\.?\w*)", text, re.MULTILINE)
        known = ("java.", "javax.", "org.apache.spark", "org.slf4j", "pyromq.", "com.fasterxml", "net.razorvine")
        assert all(each.startswith((*known, "com.github.luben", "net.jpountz")) for each in foreign), source.name
