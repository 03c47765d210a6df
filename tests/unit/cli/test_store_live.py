"""``pyromq store check --live``: what the scrub of a broker has noted, and the exit code that scripts look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.cli.exit_codes import ExitCode
from pyromq.cli.main import main
from pyromq.clock import SystemClock
from pyromq.store.files.disk import RealDisk
from pyromq.store.log.log_walk import DamagedRange
from pyromq.store.message_store import MessageStore
from pyromq.store.scrub import Scrub
from pyromq.store.settings import StoreSettings

SMALL = StoreSettings(segment_bytes=4096, index_slots=16, index_entries=64)


def noted(folder: Path, *damaged: DamagedRange) -> None:
    with MessageStore.open(folder, SMALL) as store:
        scrub = Scrub(store, RealDisk(), SystemClock(), lambda job: job())
        scrub.damaged = list(damaged)
        scrub.mended(-1)


def test_a_note_is_told_with_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noted(tmp_path)
    assert main(["store", "check", "--live", "-o", "table", str(tmp_path)]) == ExitCode.OK
    assert "nothing damaged" in capsys.readouterr().out
    noted(tmp_path, DamagedRange(271, 542, "its checksum does not match"))
    assert main(["store", "check", "--live", "-o", "table", str(tmp_path)]) == ExitCode.PARTIAL
    assert "its checksum does not match" in capsys.readouterr().out


def test_a_folder_without_a_note_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    MessageStore.open(tmp_path, SMALL).close()
    assert main(["store", "check", "--live", "-o", "table", str(tmp_path)]) not in (ExitCode.OK, ExitCode.PARTIAL)
    assert "scrub_bytes_s" in capsys.readouterr().err
