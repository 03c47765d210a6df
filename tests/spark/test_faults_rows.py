"""One message in a hundred is poison: broken compression, properties that are no text, a handler that raises.

The stream goes on; what cannot be handled is a dead letter that says what happened to it, where and when.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from pyromq.client.core.client import Client
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.producer.outgoing import SEND, SEND_BATCH, OutgoingMessage
from pyromq.model.names import DEFAULT_TOPIC, dead_letter_topic
from pyromq.model.queue import QueueId
from pyromq.pipeline import Record, consume
from pyromq.pipeline.jobs import Selection, archive, read_archive
from pyromq.settings import ClientSettings
from pyromq.wire.batch import BatchItem, encode_batch
from pyromq.wire.fast.send_request import header_fields
from pyromq.wire.flags import SysFlag
from tests.spark.queries import run
from tests.spark.test_sink import bodies_of, stored
from tests.spark.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("default_lane")]
TIMEOUT_S = 300
ROWS = 300
BROKEN = b"this was never compressed"
GARBLED = b"UNIQ_KEY\x01GARBLED%d\x02shop\x01\xff\xfe\xc3\x02"


class Poisoned:
    """A topic with one broken body, one garbled text and one failure in a hundred messages."""

    def __init__(self, topics: Topics) -> None:
        self.topic = topics.make()
        self.healthy = topics.send(self.topic, [f"good-{number}" for number in range(ROWS * 97 // 100)])
        self.failing = topics.send(self.topic, [f"boom-{number}" for number in range(ROWS // 100)])
        self.broken = self.garbled = ROWS // 100
        queues = topics.queues(self.topic)
        asyncio.run(self._send(topics.nameserver, queues))

    async def _send(self, nameserver: str, queues: list[QueueId]) -> None:
        async with Client(ClientSettings(nameservers=nameserver)) as client:
            await client.routes.get(self.topic, timeout_ms=5_000)
            kinds = (SysFlag.ZLIB, SysFlag.LZ4, SysFlag.ZSTD)
            for number in range(self.broken):
                flag = int(SysFlag.COMPRESSED | kinds[number % len(kinds)])
                text = f"UNIQ_KEY\x01BROKEN{number}\x02shop\x01north\x02"
                outgoing = OutgoingMessage(SEND, self.topic, BROKEN, text, "", client.clock.now_ms(), 0, 0, flag)
                await self._request(client, outgoing, queues[number % len(queues)])
            for number in range(self.garbled):
                body = encode_batch([BatchItem(b"garbled-%d" % number, GARBLED % number)])
                outgoing = OutgoingMessage(SEND_BATCH, self.topic, body, "", "", client.clock.now_ms(), 0)
                await self._request(client, outgoing, queues[number % len(queues)])

    @staticmethod
    async def _request(client: Client, outgoing: OutgoingMessage, queue: QueueId) -> None:
        fields = header_fields(outgoing, queue, "poisoners", DEFAULT_TOPIC, "4")
        response = await client.master_link(queue.broker).request(
            outgoing.code, fields, outgoing.body, timeout_ms=5_000
        )
        assert response.code == 0, response


def handle(record: Record) -> None:
    if record.body.startswith(b"boom"):
        raise ValueError(f"no {record.body.decode()} today")


def test_poison_does_not_stop_a_consumer_group(spark: Any, topics: Topics, checkpoint: str) -> None:
    poisoned = Poisoned(topics)
    running = consume(
        spark, poisoned.topic, topics.group, handle, nameserver=topics.nameserver, start="earliest",
        checkpoint=checkpoint, trigger={"availableNow": True}, attempts_max=0,
    )  # fmt: skip
    assert running.wait(TIMEOUT_S)
    counts = running.counts
    assert counts.rows == ROWS, "every message"
    assert counts.dead == poisoned.broken + len(poisoned.failing) and counts.retried == 0
    assert sum(offset or 0 for offset in topics.committed(poisoned.topic).values()) == counts.rows

    letters = stored(topics, dead_letter_topic(topics.group))
    assert Counter(letter.get("DLQ_STAGE") for letter in letters) == {
        "decode": poisoned.broken,
        "attempts": len(poisoned.failing),
    }
    offsets = source_offsets(topics, poisoned.topic)
    for letter in letters:
        assert re.fullmatch(r"[0-9a-f-]{36}/0", letter.get("DLQ_BATCH") or ""), "query and batch"
        assert offsets[letter.message_id] == letter.get("DLQ_SOURCE")
    unread = [letter for letter in letters if letter.get("DLQ_STAGE") == "decode"]
    assert {letter.get("DLQ_ERROR") for letter in unread} == {"its body cannot be decompressed"}
    assert {(letter.packed_body, letter.get("shop")) for letter in unread} == {(BROKEN, "north")}
    assert {letter.sys_flag & 0x701 for letter in unread} == {0x101, 0x201, 0x301}, "still to be read by who can"
    raised = {letter.body.decode(): letter.get("DLQ_ERROR") for letter in letters if letter not in unread}
    assert raised == {text: f"ValueError: no {text} today" for text in poisoned.failing}


def source_offsets(topics: Topics, topic: str) -> dict[str, str]:
    def place(message: ReceivedMessage) -> str:
        return f"{topic}/{message.broker}/{message.queue_id}/{message.offset}"

    return {message.message_id: place(message) for message in stored(topics, topic)}


def test_poison_is_a_null_body_to_a_stream_and_an_archive(
    spark: Any, topics: Topics, checkpoint: str, tmp_path: Path
) -> None:
    poisoned = Poisoned(topics)
    options = topics.options(poisoned.topic, group=topics.group, startingOffsets="earliest")
    schema = "message_id string, properties map<string,string>, body binary"
    rows = run(spark, options, checkpoint, schema=schema).rows
    check(poisoned, rows)
    selection = Selection(topics=(poisoned.topic,), nameserver=topics.nameserver)
    archive(spark, selection, str(tmp_path / "archive"), group=f"{topics.group}-archive")
    check(poisoned, read_archive(spark, str(tmp_path / "archive")).collect())


def check(poisoned: Poisoned, rows: list[Any]) -> None:
    assert len(rows) == ROWS
    assert {row["message_id"] for row in rows if row["body"] is None} == {f"BROKEN{n}" for n in range(poisoned.broken)}
    garbled = {row["message_id"]: row["properties"]["shop"] for row in rows if bytes(row["body"] or b"")[:3] == b"gar"}
    assert garbled == {f"GARBLED{number}": "\ufffd\ufffd\ufffd" for number in range(poisoned.garbled)}


def test_a_sink_names_a_row_that_no_broker_takes_and_goes_on_without_it(
    spark: Any, topics: Topics, checkpoint: str
) -> None:
    poisoned, target = Poisoned(topics), topics.make("-target")

    def copying(condition: str) -> Any:
        read = spark.readStream.format("pyromq").options(
            **topics.options(poisoned.topic, group=topics.group, startingOffsets="earliest", properties="raw")
        )
        rows = read.schema("properties string, body binary").load().where(condition)
        writing = rows.writeStream.format("pyromq").options(**topics.options(target, mode="idempotent"))
        return writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()

    with pytest.raises(PySparkException, match=r"column body, row \d+: it is empty"):
        copying("true").awaitTermination(TIMEOUT_S)
    assert copying("body is not null").awaitTermination(TIMEOUT_S)
    garbled = [f"garbled-{number}" for number in range(poisoned.garbled)]
    assert bodies_of(topics, target) == Counter([*poisoned.healthy, *poisoned.failing, *garbled])
