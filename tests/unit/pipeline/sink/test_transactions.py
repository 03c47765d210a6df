"""Decisions of a transactional sink, and what brokers hear of them."""

from __future__ import annotations

from pathlib import Path

from pyromq.client.core.transaction import TransactionOutcome
from pyromq.pipeline.core.checkpoint_log import CheckpointLog
from pyromq.pipeline.sink.keys import RowKeys, next_run
from pyromq.pipeline.sink.transactions import Decisions


def test_brokers_are_answered_from_the_decision(tmp_path: Path) -> None:
    decisions = Decisions(CheckpointLog(str(tmp_path), "decisions"))
    keys = {run: RowKeys("query", 4, 0, run) for run in (11, 12)}
    assert decisions.newest() == -1
    assert decisions.outcome(keys[11].of_row(0)) is TransactionOutcome.UNKNOWN
    decisions.decide(4, keys[11].digest, {0: (12, 13)}, [keys[12].of_row(9)])
    again = Decisions(CheckpointLog(str(tmp_path), "decisions"))
    assert again.newest() == 4
    assert again.outcome(keys[12].of_row(5)) is TransactionOutcome.COMMIT
    assert again.outcome(next_run(keys[12].of_row(9))) is TransactionOutcome.COMMIT
    assert again.outcome(keys[12].of_row(9)) is TransactionOutcome.ROLLBACK, "it may have arrived, and was sent again"
    assert again.outcome(keys[11].of_row(5)) is TransactionOutcome.ROLLBACK, "a run that did not count"
    assert again.outcome(RowKeys("query", 4, 1, 12).of_row(5)) is TransactionOutcome.ROLLBACK
    assert again.outcome(RowKeys("query", 5, 0, 12).of_row(5)) is TransactionOutcome.UNKNOWN, "not decided yet"
    assert again.outcome(RowKeys("other", 4, 0, 12).of_row(5)) is TransactionOutcome.UNKNOWN, "of another query"
    assert again.outcome("of another producer") is TransactionOutcome.UNKNOWN


def test_old_decisions_are_forgotten(tmp_path: Path) -> None:
    log = CheckpointLog(str(tmp_path), "decisions")
    decisions = Decisions(log)
    for batch in (0, 1, 1_001):
        decisions.decide(batch, "D", {})
    assert log.names() == ["1001"] and decisions.newest() == 1_001
