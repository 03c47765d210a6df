"""A SPARK_HOME without Spark's own Python."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyromq.pipeline.spark.home import light_home, started_from


def test_a_light_home_has_all_of_spark_but_its_python(tmp_path: Path) -> None:
    installed, moved = tmp_path / "installed", tmp_path / "moved"
    for part in ("bin", "jars", "python", "sql"):
        (installed / part).mkdir(parents=True)
    home = light_home(installed, tmp_path / "cache")
    assert {each.name: each.readlink() for each in home.iterdir()} == {
        "bin": installed / "bin", "jars": installed / "jars",
    }  # fmt: skip
    (home / "jars").unlink()
    (home / "jars").symlink_to(moved)
    assert light_home(installed, tmp_path / "cache") == home
    assert (home / "jars").readlink() == installed / "jars", "a wrong link is mended"
    assert light_home(moved, tmp_path / "cache") != home


def test_only_a_spark_that_starts_now_has_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    with started_from(tmp_path):
        assert os.environ["SPARK_HOME"] == str(tmp_path)
    assert "SPARK_HOME" not in os.environ
    monkeypatch.setenv("SPARK_HOME", "/mine")
    with started_from(tmp_path):
        assert os.environ["SPARK_HOME"] == "/mine"
    assert os.environ["SPARK_HOME"] == "/mine"
