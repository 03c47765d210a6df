"""An archive folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.pipeline.jobs.archiving.files import ArchiveFolder


@pytest.fixture
def folder(tmp_path: Path) -> ArchiveFolder:
    made = ArchiveFolder(tmp_path / "archive")
    made.prepare()
    return made
