"""What mypy accepts runs, what runs is accepted: programs of users in tests/typing."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq.errors import MQError
from tests.typing import apps, bad, good

ROOT = Path(__file__).parents[2]
OF_APPS = ("tests/typing/apps.py", "examples/shop/shop.py")
SOURCE = (ROOT / "tests/typing/bad.py").read_text(encoding="utf-8").splitlines()
MARKED = {number for number, line in enumerate(SOURCE, 1) if line.endswith("# refused")}
REFUSED = [
    name
    for name, function in inspect.getmembers(bad, inspect.isfunction)
    if function.__module__ == bad.__name__ and inspect.getsource(function).rstrip().endswith("# refused")
]


@pytest.mark.check
def test_good_uses_are_accepted_and_bad_ones_refused_at_each_marked_line() -> None:
    """One run of mypy, with the settings and the cache of ``make check``."""
    pytest.importorskip("mypy", reason="types were not checked: no mypy")
    command = (sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context")
    ended = subprocess.run(
        [*command, "tests/typing/good.py", "tests/typing/bad.py", *OF_APPS], cwd=ROOT, capture_output=True, text=True
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    found = [line.split(":")[:2] for line in ended.stdout.splitlines() if ": error:" in line]
    assert {name for name, _ in found} == {"tests/typing/bad.py"}, ended.stdout
    assert {int(number) for _, number in found} == MARKED, ended.stdout


@pytest.mark.check
def test_apps_are_accepted_by_pyright() -> None:
    pytest.importorskip("pyright", reason="types were not checked: no pyright")
    command = (sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--project", "tests/typing")
    ended = subprocess.run([*command], cwd=ROOT, capture_output=True, text=True)
    if "0 errors" not in ended.stdout and not ended.stdout.strip():
        pytest.skip(f"pyright does not run here: {ended.stderr[-200:]}")
    assert ended.returncode == 0, ended.stdout


def test_apps_fit_what_they_are_called_with() -> None:
    apps.app.check()


def test_good_uses_run(tmp_path: Path, quiet: None) -> None:
    good.main(tmp_path)


@pytest.mark.parametrize("name", REFUSED)
def test_bad_uses_are_refused_at_run_time(name: str) -> None:
    with pytest.raises((MQError, TypeError)):
        getattr(bad, name)()


def test_every_marked_line_is_tried() -> None:
    assert len(REFUSED) == len(MARKED)
