"""What a consuming query counts: every batch once, whatever Spark repeats."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from pyromq.pipeline.consuming import writer
from pyromq.pipeline.consuming.verdicts import Retry
from pyromq.pipeline.consuming.writer import ConsumeWriter, Handled, RowCounts, counts_log, handle_rows, read_counts
from pyromq.pipeline.core.options import SourceOptions
from tests.unit.pipeline.consuming.records import record

FACTS = writer.Work(
    SourceOptions(nameserver="n:1"), "g", 16, in_batches=False, handler=pickle.dumps(None), failure_share_max=0.5
)


def test_a_batch_that_is_committed_again_counts_once(tmp_path: Path) -> None:
    folder = str(tmp_path)
    ConsumeWriter(FACTS.as_option(), folder).commit(
        [Handled(rows=10, retried=1, dead=2), None, Handled(rows=5, retried=0, dead=0)], 0
    )
    ConsumeWriter(FACTS.as_option(), folder).commit([Handled(rows=10, retried=1, dead=2)], 0)
    assert read_counts(counts_log(folder)) == RowCounts(0, rows=15, done=12, retried=1, dead=2)
    ConsumeWriter(FACTS.as_option(), folder).commit([Handled(rows=1, retried=0, dead=1)], 1)
    assert read_counts(counts_log(folder)) == RowCounts(1, rows=16, done=12, retried=1, dead=3)


def test_an_aborted_batch_counts_nothing(tmp_path: Path) -> None:
    ConsumeWriter(FACTS.as_option(), str(tmp_path)).abort([Handled(rows=10, retried=1, dead=2)], 0)
    assert read_counts(counts_log(str(tmp_path))) == RowCounts()


def test_rows_that_cannot_be_sent_back_fail_their_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that reported success would let the group pass them."""

    class Refusing:
        def __init__(self, *_: object) -> None: ...

        def send_back(self, judged: object) -> None:
            raise ConnectionError("no broker takes them")

    monkeypatch.setattr(writer, "RowSendBack", Refusing)
    monkeypatch.setattr(writer, "connect", lambda reaching: None)
    monkeypatch.setattr(writer, "judge_records", lambda batch, handler, with_tracebacks: [(record(), Retry())])
    with pytest.raises(ConnectionError):
        handle_rows((FACTS, None), "query/0", iter([pa.record_batch({"body": [b"x"], "delivery_attempt": [0]})]))
