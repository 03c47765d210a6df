"""What tasks of the sink and of a consumer group do when brokers are killed under them. No Spark is started here."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyromq.client.core.transaction import TransactionOutcome
from pyromq.errors import ConnectionLostError
from pyromq.pipeline.consuming.rows import Record
from pyromq.pipeline.consuming.send_back import RowSendBack
from pyromq.pipeline.consuming.verdicts import Dead, Retry
from pyromq.pipeline.core.connections import connect
from pyromq.pipeline.core.options import SourceOptions, Use
from pyromq.pipeline.sink.options import parse_sink_options
from pyromq.pipeline.sink.sender import RequestSender
from pyromq.pipeline.sink.sink import Plan, StreamWriter, Task, Written, plan_of, write_rows
from pyromq.pipeline.sink.transactions import decisions_of, with_group
from pyromq.testing import AsyncServerProcess
from tests.spark.test_sink import bodies_of
from tests.spark.topics import Topics

pytestmark = pytest.mark.spark
ROWS, BATCH = 6_000, 250


@pytest.mark.parametrize("mode", ["at-least-once", "idempotent"])
async def test_a_broker_that_is_killed_while_rows_are_sent(
    mode: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """What it had stored without saying so is sent again, unless the mode looks first."""
    async with AsyncServerProcess("up", data=tmp_path / "data") as server:
        with Topics(server.nameserver, mode) as topics:
            target = await asyncio.to_thread(topics.make, "", 3)
            await asyncio.to_thread(topics.queues, target)
            given = topics.options(target, mode=mode, sinkId="x", batchBytes="8k", requestTimeout="10s", inFlight=16)
            options = parse_sink_options(given, Use.BATCH)
            plan = await asyncio.to_thread(plan_of, options)
            half_way, go_on = threading.Event(), threading.Event()

            def batches() -> Iterator[pa.RecordBatch]:
                for first in range(0, ROWS, BATCH):
                    if first == ROWS // 2:
                        half_way.set()
                        go_on.wait(60)
                    yield pa.record_batch({"body": [f"row-{number}" for number in range(first, first + BATCH)]})

            writing = asyncio.create_task(asyncio.to_thread(write_rows, options, plan, Task("q", 0, 0, 0), batches()))
            await asyncio.to_thread(half_way.wait, 60)
            go_on.set()
            await asyncio.sleep(0)
            await server.kill()
            await server.start()
            written: Written = await asyncio.wait_for(writing, 120)
            found: Counter[str] = await asyncio.to_thread(bodies_of, topics, target)
    expected = Counter(f"row-{number}" for number in range(ROWS))
    assert written.rows == ROWS and not expected - found, "nothing confirmed is lost"
    record_property("ledger duplicates", sum((found - expected).values()))
    if mode == "idempotent":
        assert found == expected


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The first confirmation does not arrive; it is here instead."""
    attempt, lost = RequestSender._attempt, list[Any]()

    async def lossy(self: RequestSender, *arguments: Any) -> Any:
        response = await attempt(self, *arguments)
        if not lost:
            lost.append(response)
            raise ConnectionLostError("the response got lost", peer="test")
        return response

    monkeypatch.setattr(RequestSender, "_attempt", lossy)
    return lost


@pytest.mark.parametrize(("mode", "copies"), [("at-least-once", 2), ("idempotent", 1)])
def test_a_confirmation_that_gets_lost(topics: Topics, mode: str, copies: int, lost: list[Any]) -> None:
    """The broker has the rows, and the task does not know it."""
    target = topics.make()
    topics.queues(target)
    options = parse_sink_options(topics.options(target, mode=mode, sinkId=mode, settleTime="10ms"), Use.BATCH)
    rows = [f"row-{number}" for number in range(100)]
    written = write_rows(options, plan_of(options), Task("q", 0, 0, 0), iter([pa.record_batch({"body": rows})]))
    assert lost and written.rows == 100
    assert bodies_of(topics, target) == Counter(rows * copies)


def test_a_half_message_whose_confirmation_gets_lost_is_rolled_back(
    topics: Topics, lost: list[Any], checkpoint: str
) -> None:
    target = topics.make()
    topics.queues(target)
    given = topics.options(target, mode="transactional", checkpointLocation=checkpoint, checkAfter="5m")
    options, rows = with_group(parse_sink_options(given, Use.STREAM)), [f"row-{number}" for number in range(30)]
    written = write_rows(options, Plan(), Task("q", 0, 0, 0, run=7), iter([pa.record_batch({"body": rows})]))
    assert lost and not bodies_of(topics, target)
    StreamWriter(options).commit([written], 0)
    assert bodies_of(topics, target) == Counter(rows)
    [doubtful], decisions = written.doubtful, decisions_of(options)
    assert decisions.outcome(doubtful) is TransactionOutcome.ROLLBACK
    [waiting] = topics.admin.transactions.list(target)
    assert waiting.message_id == doubtful, "its broker will ask, and be told so"
    StreamWriter(options).abort([written], 0)
    assert bodies_of(topics, target) == Counter(rows), "what was decided stays"


def test_a_task_that_died_is_made_up_for_by_its_next_attempt(topics: Topics) -> None:
    """Same plan, same rows: what the first attempt sent is left out, and what another partition sent is not touched."""
    target = topics.make(queues=3)
    topics.queues(target)
    options = parse_sink_options(topics.options(target, mode="idempotent", sinkId="x", settleTime="10ms"), Use.BATCH)
    plan, bodies = plan_of(options), [f"row-{number}" for number in range(60)]

    def dying() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"body": bodies[:40]})
        raise KeyboardInterrupt

    # the first attempt sends what it has packed, and dies before it has packed the rest
    write_rows(options, plan, Task("q", 0, 0, 0), iter([pa.record_batch({"body": bodies[:40]})]))
    with pytest.raises(KeyboardInterrupt):
        write_rows(options, plan, Task("q", 0, 1, 0), dying())
    again = write_rows(options, plan, Task("q", 0, 0, 1), iter([pa.record_batch({"body": bodies})]))
    other = write_rows(options, plan, Task("q", 0, 1, 1), iter([pa.record_batch({"body": bodies})]))
    assert (again.rows, again.skipped) == (20, 40)
    assert other.rows + other.skipped == 60
    assert bodies_of(topics, target) == Counter(bodies * 2), "two partitions that happen to have the same rows"


def record(broker: str, **facts: Any) -> Record:
    given = {
        "stored_topic": "orders", "broker": broker, "queue_id": 0, "queue_offset": 0, "delivery_attempt": 0, "flag": 0,
        "position": 0, "raw_properties": "UNIQ_KEY\x01ID\x02", "body": b"x", **facts,
    }  # fmt: skip
    return Record(**given)


def test_rows_whose_message_has_expired_come_again_as_copies(topics: Topics) -> None:
    """A broker cannot send back what it does not have; the row has all that it takes."""
    topic = topics.make()
    [queue, *_] = topics.queues(topic)
    options = SourceOptions(nameserver=topics.nameserver, retry_ms=2_000)
    rows = RowSendBack(connect(options), options, topics.group, 16, "query/0")
    gone = record(queue.broker, stored_topic=topic, position=1 << 40)
    rows.send_back([(gone, Retry(delay_level=1)), (gone, Dead("no"))])
    assert (rows.retried, rows.dead) == (1, 1)
    letters = bodies_of(topics, f"%DLQ%{topics.group}")
    assert letters == Counter(["x"])


def test_rows_that_no_broker_takes_back_end_the_task_in_words(topics: Topics) -> None:
    topic = topics.make()
    topics.queues(topic)
    options = SourceOptions(nameserver=topics.nameserver, retry_ms=200)
    rows = RowSendBack(connect(options), options, topics.group, 16, "query/0")
    with pytest.raises(Exception, match=r"sending back .*nowhere/0/0 failed for .*retryTimeout"):
        rows.send_back([(record("nowhere", stored_topic=topic), Retry())])
    assert (rows.retried, rows.dead) == (0, 0)


def test_a_batch_that_was_decided_is_not_sent_again(topics: Topics) -> None:
    options = parse_sink_options(topics.options(topics.make()), Use.BATCH)
    rows = iter([pa.record_batch({"body": ["a", "b"]})])
    assert write_rows(options, Plan(decided=3), Task("q", 3, 0, 0), rows) == Written(0, 0, skipped=2)
