"""Files beside a checkpoint."""

from __future__ import annotations

from pathlib import Path

from pyromq.pipeline.core.checkpoint_log import CheckpointLog


def test_a_log_keeps_whole_files_only(tmp_path: Path) -> None:
    log = CheckpointLog(f"file:{tmp_path}", "part")
    assert log.read("one") is None and log.names() == []
    log.write("one", "first")
    log.write("one", "second", durable=False)
    assert log.read("one") == "second" and log.names() == ["one"]
    assert (tmp_path / "pyromq" / "part" / "one").read_text() == "second"
