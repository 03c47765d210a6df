"""What the end of a run says of messages that a group never got."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.soak.book import DeliveryBook
from tests.soak.run import SoakPlan, SoakRun
from tests.soak.samples import RunFolder


class Load:
    """Everything but messages."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    async def pause(self) -> None: ...

    async def count_letters(self) -> None: ...

    def judge_order(self) -> None: ...


def a_run(folder: Path, log: set[str]) -> SoakRun:
    """Nothing is sent any more; the master's log has these."""
    run = SoakRun(SoakPlan(hours=0, settle_s=0.01, sample_s=0.01), folder, RunFolder(folder / "kept"))
    run.book = DeliveryBook({"plain": ("billing",)}, late_s=0.0)
    load: Any = Load()
    run.load = load

    async def stored_ids() -> set[str]:
        return set(log)

    cluster: Any = SimpleNamespace(master=SimpleNamespace(stored_ids=stored_ids), tracebacks=list)
    run.cluster = cluster
    return run


async def test_what_is_in_no_log_is_lost_and_what_is_in_one_was_not_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SoakRun, "_sample", lambda run: None)
    log = {"kept"}
    run = a_run(tmp_path, log)
    for message_id in ("kept", "gone", "consumed"):
        run.book.acknowledge("plain", message_id)
    run.book.deliver("billing", "consumed")
    await run._judge()
    log.clear()  # retention, before the run is over
    await run._settle()
    assert [text.split(",")[0].split(":")[0] for text in run.problems] == ["in the log", "LOST"]
    assert "kept" in run.problems[0] and "gone" in run.problems[1]
    events = run.record.events()
    assert [event["in_log"] for event in events if event["kind"] == "late"] == [True, False]


async def test_a_run_in_which_everybody_got_everything_has_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SoakRun, "_sample", lambda run: None)
    run = a_run(tmp_path, set())
    run.book.acknowledge("plain", "a")
    run.book.bury("billing", "a")
    await run._settle()
    assert run.problems == []
