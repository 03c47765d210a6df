"""Rows in front of a handler, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pyromq.pipeline.consuming.rows import NEEDED, Record, columns_of, judge_batch, judge_records
from pyromq.pipeline.consuming.verdicts import DONE, Dead, Retry
from pyromq.pipeline.core.errors import SchemaError, WrongVerdictError
from tests.unit.pipeline.consuming.records import record


def batch(*bodies: bytes | None) -> pa.RecordBatch:
    columns: dict[str, Any] = {name: ["t"] * len(bodies) for name in NEEDED}
    numbers = ("queue_id", "queue_offset", "delivery_attempt", "flag", "commit_log_offset")
    columns |= {name: list(range(len(bodies))) for name in numbers}
    return pa.record_batch({**columns, "body": pa.array(list(bodies), pa.binary())})


def test_a_record_that_comes_again_has_the_topic_it_was_sent_to() -> None:
    assert record().topic == "orders"
    again = record(stored_topic="%RETRY%g", raw_properties="RETRY_TOPIC\x01orders\x02")
    assert (again.topic, again.tags, again.get("RETRY_TOPIC")) == ("orders", "", "orders")
    assert (record().tags, record().keys, record().message_id) == ("red", "k", "ID")
    assert record().properties == {"UNIQ_KEY": "ID", "TAGS": "red", "KEYS": "k"}


def test_failures_concern_their_row_alone() -> None:
    def handle(row: Record) -> Any:
        match row.body:
            case b"done":
                return DONE
            case b"dead":
                return Dead("no")
        raise KeyError("lost")

    judged = judge_records(batch(b"done", b"dead", b"boom", None), handle)
    assert [row.queue_offset for row, _ in judged] == [1, 2, 3]
    verdicts = [verdict for _, verdict in judged]
    assert verdicts[:2] == [Dead("no"), Retry(reason="KeyError: 'lost'")]
    assert isinstance(verdicts[2], Dead) and verdicts[2].stage == "decode", "no handler sees a body that is not there"


def test_a_batch_handler_answers_for_all_rows_or_all_come_again() -> None:
    rows = batch(b"a", b"b")
    assert judge_batch(rows, lambda _: None) == []
    assert [verdict for _, verdict in judge_batch(rows, lambda _: [None, Dead("x")])] == [Dead("x")]
    verdicts = [verdict for _, verdict in judge_batch(rows, lambda _: 1 / 0)]  # type: ignore[arg-type,return-value]
    assert len(verdicts) == 2 and all(isinstance(verdict, Retry) for verdict in verdicts)


@pytest.mark.parametrize("verdict", [True, "done", 0, Retry])
def test_what_is_no_verdict_ends_the_query_at_once(verdict: Any) -> None:
    for judge, handler in ((judge_records, lambda _: verdict), (judge_batch, lambda rows: [None, verdict])):
        with pytest.raises(WrongVerdictError, match=r"must return None \(done\), Retry or Dead, not"):
            judge(batch(b"a", b"b"), handler)
    with pytest.raises(WrongVerdictError, match="1 verdicts for 2 rows"):
        judge_batch(batch(b"a", b"b"), lambda _: [None])


def test_every_row_of_a_long_batch_keeps_its_own_verdict() -> None:
    bodies = [None if row % 700 == 3 else b"%d" % row for row in range(1_500)]
    bad = {3, 511, 512, 703, 1_023, 1_024, 1_403, 1_499}  # 3, 703 and 1 403 have no body

    def reason(row: int) -> Dead | None:
        return Dead(f"row {row}") if row in bad else None

    one_by_one = judge_records(batch(*bodies), lambda row: reason(int(row.body)))
    at_once = judge_batch(batch(*bodies), lambda _: [reason(row) for row in range(1_500)])
    for judged in (one_by_one, at_once):
        assert [row.queue_offset for row, _ in judged] == sorted(bad)
        assert [row.body for row, _ in judged] == [bodies[row] for row in sorted(bad)]
        stages = [verdict.stage for _, verdict in judged if isinstance(verdict, Dead)]
        assert [stage == "decode" for stage in stages] == [bodies[row] is None for row in sorted(bad)]


def test_columns_are_checked_and_needed_ones_are_there() -> None:
    assert columns_of(["tags", "body", "tags"]) == [*NEEDED, "tags"]
    with pytest.raises(SchemaError, match="no column tag;"):
        columns_of(["tag"])
