"""Where tasks of an archive write: in a folder that must be there on their machine too."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.pipeline.jobs.archiving.files import ArchiveFolder
from pyromq.pipeline.jobs.archiving.source import shared_folder
from pyromq.pipeline.jobs.common.errors import ArchiveError


def test_a_machine_without_the_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"archive does not exist on .*share the folder .*writer=spark"):
        shared_folder(str(tmp_path / "archive"))
    folder = ArchiveFolder(tmp_path / "archive")
    folder.prepare()
    assert shared_folder(str(tmp_path / "archive")).staged == folder.staged
