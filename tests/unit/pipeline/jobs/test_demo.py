"""Machines without Spark or Java: one line says what is missing, and nothing fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.cli.main import main
from pyromq.pipeline import java
from pyromq.pipeline.jobs import demo_job


def no_java(**_: Any) -> Path:
    raise java.JavaNotFoundError(java.ADVICE)


def test_the_demo_says_what_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_job, "find_spec", lambda name: None if name == "pyspark" else object())
    said: list[str] = []
    done = demo_job.demo("127.0.0.1:1", tmp_path, say=said.append)
    assert said == [done.skipped] and "pyspark not installed" in done.skipped and "\n" not in done.skipped
    assert not list(tmp_path.iterdir())


def test_the_demo_says_when_there_is_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "java_home", no_java)
    assert "Java 17 or newer" in demo_job.demo("127.0.0.1:1", tmp_path).skipped


def test_commands_say_it_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(java, "java_home", no_java)
    assert main(["pipeline", "archive", "orders", "--to", "/nowhere"]) == 1
    assert "Java 17 or newer" in capsys.readouterr().err


def test_wrong_arguments_are_told_before_spark_is_started(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, text in (
        (("archive", "orders", "--to", "x", "--writer", "pen"), "'pen' is none of task, spark"),
        (("replay", "orders", "--to", "x", "--begin", "soon"), "'soon' is no time"),
        (("replay", "orders", "--to", "x", "--begin-offsets", "7"), "is not"),
        (("archive", "orders", "--to", "x", "--option", "nonsense"), "not NAME=VALUE"),
    ):
        assert main(["pipeline", *arguments]) == 1
        assert text in " ".join(capsys.readouterr().err.replace("│", " ").split())
