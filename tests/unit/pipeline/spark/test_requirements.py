"""Machines without Spark or Java: one line says what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyromq.cli.main import main
from pyromq.pipeline.spark import java, requirements

ROOT = Path(__file__).parents[4]


def no_java(**_: Any) -> Path:
    raise java.JavaNotFoundError(java.ADVICE)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "find_spec", lambda name: None if name != "numpy" else object())
    told = requirements.what_is_missing()
    assert told == "pyspark, pyarrow not installed: run pip install 'pyromq[pipeline-java]'"


def test_a_missing_java_is_told_unless_spark_is_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "java_home", no_java)
    assert requirements.what_is_missing() == java.ADVICE
    assert not requirements.what_is_missing("sc://spark.example.org:15002")


def test_commands_say_it_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(java, "java_home", no_java)
    monkeypatch.setattr("pyromq.cli.pipeline.commands.check_topics", lambda *_, **__: None)
    assert main(["pipeline", "archive", "orders", "--to", "/nowhere"]) == 1
    assert capsys.readouterr().err == f"pyromq: {java.ADVICE}\n"


def test_the_demo_says_it_and_goes_on(tmp_path: Path) -> None:
    """Run as on a machine whose interpreter has no pyspark."""
    program = (
        "import importlib.util, runpy, sys\n"
        "real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'pyspark' else real(name, *more)\n"
        f"sys.path.insert(0, {str(ROOT / 'examples')!r})\n"
        f"sys.argv[1:] = [{str(tmp_path)!r}]\n"
        f"runpy.run_path({str(ROOT / 'examples' / 'orders_on_spark.py')!r}, run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "skipped: pyspark not installed: run pip install 'pyromq[pipeline-java]'"
    assert not list(tmp_path.iterdir())
