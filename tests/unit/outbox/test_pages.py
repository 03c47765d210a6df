"""The page on Django runs in a process of its own: its settings are one for a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.test_docs import ROOT, python_blocks_to_run

END_S = 60


def run_page(name: str, folder: Path, **variables: str) -> None:
    """All blocks of a how-to page as one program, in this folder."""
    page = ROOT / "docs/how-to" / name
    blocks = python_blocks_to_run(page.read_text(encoding="utf-8"))
    assert blocks
    program = folder / "page.py"
    program.write_text("\n".join(block.code for block in blocks), encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=END_S,
    )
    assert ended.returncode == 0, ended.stderr


def test_the_page_on_django_runs(tmp_path: Path) -> None:
    pytest.importorskip("django", reason="the page on Django was not tried")
    run_page("outbox-django.md", tmp_path)
