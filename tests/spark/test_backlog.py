"""A backlog of 10⁸ messages: planned and sampled, with a driver whose memory does not know how many they are."""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from random import Random
from typing import Any, overload

import pytest

from pyromq.wire.record import Draft, encode_record
from tests.spark.scripted_broker import BROKER, TOPIC, ScriptedBroker

pytestmark = pytest.mark.spark
MANY = 10**8
MB_MAX = 32
HOST = b"\x7f\0\0\x01\0\0\x2a\x9f"


class MadeRecords(Sequence[bytes]):
    """So many records, each made when it is asked for: the body is its offset."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        if isinstance(at, slice):
            return [self[offset] for offset in range(*at.indices(self._count))]
        draft = Draft(queue_id=0, body=b"%d" % at, properties=b"", topic=TOPIC, born_ms=11)
        return encode_record(
            draft, offset=at, position=at * 100, stored_ms=1_700_000_000_000 + at, store_host=HOST, checksum=False
        )


def driver_mb(spark: Any) -> float:
    """What the driver's Python and its JVM hold, without garbage."""
    gc.collect()
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    spark._jvm.java.lang.System.gc()
    with open("/proc/self/statm", encoding="ascii") as file:
        own = int(file.read().split()[1]) * 4096
    return float(runtime.totalMemory() - runtime.freeMemory() + own) / (1 << 20)


def looked_at(spark: Any, count: int) -> float:
    """Plan and sample so many messages; how many MB the driver holds more after it."""
    with ScriptedBroker(MadeRecords(count), Random(27)) as broker:
        reader = spark.read.format("pyromq").options(nameserver=broker.address, topic=TOPIC)
        before = driver_mb(spark)
        frame = reader.load()
        assert frame.rdd.getNumPartitions() <= 64, "parts of a plan do not grow with messages"
        assert [int(row.body) for row in frame.select("body").limit(20).collect()] == list(range(20))
        middle = {"startingOffsets": {TOPIC: {BROKER: {"0": count // 2}}}}
        middle |= {"endingOffsets": {TOPIC: {BROKER: {"0": count // 2 + 100}}}}
        sample = reader.options(**{name: json.dumps(place) for name, place in middle.items()}).load()
        assert sorted(int(row.body) for row in sample.select("body").collect()) == [
            count // 2 + number for number in range(100)
        ]
        assert broker.pulls < 20_000, "samples do not read the topic"
        return driver_mb(spark) - before


def test_a_backlog_is_planned_and_sampled_in_the_same_memory_however_long_it_is(spark: Any) -> None:
    looked_at(spark, 10**4)  # what is loaded once
    few, many = looked_at(spark, 10**4), looked_at(spark, MANY)
    assert many - few < MB_MAX
