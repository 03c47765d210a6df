"""Where Java is found, and what is said where it is not."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from pyromq.pipeline.spark.java import JavaNotFoundError, java_home, launcher_home


def _java(folder: Path, name: str) -> Path:
    java = folder / name / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    return java


def test_java_home_comes_first_then_the_path(tmp_path: Path) -> None:
    home, path = _java(tmp_path, "home"), _java(tmp_path, "path")
    environment = {"JAVA_HOME": str(home.parent.parent), "PATH": str(path.parent)}
    assert java_home(environment, version_of=lambda java: 17) == home.parent.parent
    assert java_home(environment, version_of=lambda java: 11 if java == home else 21) == path.parent.parent


def test_the_wheel_comes_last_and_gets_a_launcher(tmp_path: Path) -> None:
    wheel = _java(tmp_path, "the wheel's")
    wheel.write_text('#!/bin/sh\nfor each do echo "[$each]"; done\n')
    home = java_home({}, wheel_home=lambda: wheel.parent.parent, folder=tmp_path / "made")
    script = home / "bin" / "java"
    assert stat.S_IMODE(script.stat().st_mode) == 0o700
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "--add-modules=java.sql"]
    shown = subprocess.run([script, *given], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
    assert shown == ["[-Xmx1g]", "[a b]", "[]", "[--add-modules=java.sql]"]
    before = script.stat().st_mtime_ns
    assert launcher_home(wheel, tmp_path / "made") == home
    assert script.stat().st_mtime_ns == before


def test_without_java_one_line_says_what_to_do(tmp_path: Path) -> None:
    old = _java(tmp_path, "old")
    environment = {"JAVA_HOME": str(old.parent.parent), "PATH": ""}
    with pytest.raises(
        JavaNotFoundError, match=r"pip install 'pyromq\[pipeline-java\]'.*JAVA_HOME leads to Java 8"
    ) as caught:
        java_home(environment, version_of=lambda java: 8, wheel_home=lambda: None)
    assert "\n" not in str(caught.value)
