"""``report``, ``dedupe``, ``read_store``: from topics and files to rows and numbers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pyromq import Message
from pyromq.broker.base.settings import BrokerSettings
from pyromq.errors import StoreNotFoundError
from pyromq.pipeline import read_store
from pyromq.pipeline.jobs import Selection, dedupe, page
from pyromq.pipeline.sink.keys import KEY_CHARACTERS
from pyromq.testing import LoopbackBroker, ManualClock
from pyromq.testing.loopback import SMALL_FILES
from pyromq.wire.trace import ConsumeBegan, ConsumeCode, ConsumeEnded, pack_records
from tests.spark.engines import report
from tests.spark.test_jobs_sending import bury
from tests.spark.topics import Topics, bodies

pytestmark = pytest.mark.spark


# --- report ----------------------------------------------------------------------------------------------------------


def test_a_report_adds_up_messages_trace_and_dead_letters(spark: Any, topics: Topics) -> None:
    topic, trace = topics.make(), topics.make("-trace")
    for number in range(6):
        topics.send(topic, [f"order {number}"], keys=f"order-{number % 5}")
    rows = Selection(topics=(topic,), nameserver=topics.nameserver).frame(spark).orderBy("store_time").collect()
    stored = {row["message_id"]: int(row["store_time"].timestamp() * 1000) for row in rows}
    tell_trace(topics, trace, topics.group, stored)
    bury(topics, topic, ["a", "b"], error="out of stock")

    found = report(
        spark, [topic], nameserver=topics.nameserver, groups=[topics.group], trace_topic=trace, clock=ManualClock(0)
    )

    assert [(each.topic, each.messages) for each in found.throughput] == [(topic, 6)]
    per_second = sum(point.value for point in found.throughput[0].points) * found.bucket_ms / 1000
    assert per_second == pytest.approx(6)
    by_what = {each.what: each for each in found.latencies}
    assert {what: each.count for what, each in by_what.items()} == {
        "storing": 6, "queueing": 5, "handling": 6, "end to end": 4,
    }  # fmt: skip
    assert by_what["queueing"].p50_ms == 100 and by_what["handling"].max_ms == 70
    assert [(each.attempt, each.count) for each in found.attempts] == [(1, 5), (2, 1)]
    assert found.slow_keys[0].key == "order-4" and found.slow_keys[0].max_ms == 70
    assert [(each.key, each.count) for each in found.duplicates] == [("order-0", 2)]
    assert [(each.messages) for each in found.handled_twice] == [1]
    assert [(each.cause, each.topic, each.count) for each in found.dead] == [("out of stock", topic, 2)]
    assert [each.last for each in found.lags] == [2]  # one never handed out, one never handled with success
    html = page(found)
    assert topic in html and "out of stock" in html


def tell_trace(topics: Topics, trace: str, group: str, stored: dict[str, int]) -> None:
    """Five of six messages are handed out 100 ms after they were stored, the first twice, the fifth fails slowly."""
    records: list[Any] = []
    ids = list(stored)
    for number, message_id in [*enumerate(ids[:5]), (0, ids[0])]:
        request, attempt = f"r{len(records)}", int(len(records) >= 10)
        began, keys, failed = stored[message_id] + 100, f"order-{number}", number == 4
        cost = 70 if failed else 10 + number
        records.append(
            ConsumeBegan(
                time_ms=began, group=group, request_id=request, message_id=message_id, keys=keys,
                delivery_attempt=attempt,
            )
        )  # fmt: skip
        records.append(
            ConsumeEnded(
                request_id=request, message_id=message_id, cost_ms=cost, is_success=not failed, keys=keys,
                code=ConsumeCode.FAILED if failed else ConsumeCode.SUCCESS, time_ms=began + cost, group=group,
            )
        )  # fmt: skip
    for pack in pack_records(records):
        topics.producer.send(Message(trace, pack.body, keys=pack.keys))


def test_a_report_without_a_trace_topic_tells_what_topics_tell(spark: Any, topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, range(3))
    found = report(spark, [topic], nameserver=topics.nameserver, trace_topic=topics.name("-none"))
    assert not found.has_trace and [each.what for each in found.latencies] == ["storing"] and not found.lags


def test_a_report_of_an_empty_topic_is_empty(spark: Any, topics: Topics) -> None:
    clock = ManualClock()
    found = report(spark, [topics.make()], nameserver=topics.nameserver, trace_topic=topics.name("-none"), clock=clock)
    assert not found.throughput and "no messages" in page(found)
    assert (found.made_ms, found.took_s) == (clock.now_ms(), 0)


# --- dedupe ----------------------------------------------------------------------------------------------------------


def test_a_key_comes_once_also_over_a_restart(spark: Any, topics: Topics, tmp_path: Path) -> None:
    topic, path = topics.make(), str(tmp_path / "once")
    wanted = Selection(topics=(topic,), nameserver=topics.nameserver)
    for text, key in (("a1", "a"), ("b1", "b"), ("a2", "a"), ("n1", ""), ("n2", "")):
        topics.send(topic, [text], **({"keys": key} if key else {}))
    first = dedupe(spark, wanted, path=path, group=topics.group)
    topics.send(topic, ["b2"], keys="b")
    topics.send(topic, ["c1"], keys="c")
    second = dedupe(spark, wanted, path=path, group=topics.group)

    found = bodies(spark.read.parquet(path).collect())
    assert len(found) == 5 and found.total() == 5 and found >= Counter(["b1", "n1", "n2", "c1"])
    assert (first.read, first.dropped) == (5, 1) and (second.read, second.dropped) == (2, 1)


def test_a_topic_without_repetitions_can_be_another_topic(spark: Any, topics: Topics, tmp_path: Path) -> None:
    topic, target = topics.make(), topics.make("-once")
    topics.send(topic, ['{"id": 1}', '{"id": 2}', '{"id": 1}'], tags="t", properties={"colour": "green"})
    dedupe(
        spark, Selection(topics=(topic,), nameserver=topics.nameserver), group=topics.group, to_topic=target,
        key="get_json_object(cast(body AS string), '$.id')", checkpoint=str(tmp_path / "checkpoint"),
    )  # fmt: skip
    rows = Selection(topics=(target,), nameserver=topics.nameserver).frame(spark).collect()
    assert bodies(rows) == Counter(['{"id": 1}', '{"id": 2}'])
    assert {row["tags"] for row in rows} == {"t"} and rows[0]["properties"]["colour"] == "green"
    # by its own key, not by its place behind the shuffle: those keys begin with the batch, which is 0 here
    assert all(len(row["message_id"]) == KEY_CHARACTERS and row["message_id"][16:24] != "0" * 8 for row in rows)


def test_a_batch_that_is_run_again_sends_no_row_a_second_time(spark: Any, topics: Topics, tmp_path: Path) -> None:
    topic, target, checkpoint = topics.make(), topics.make("-once"), tmp_path / "checkpoint"
    topics.send(topic, range(60), keys="")
    wanted = Selection(topics=(topic,), nameserver=topics.nameserver)
    for _ in range(2):
        dedupe(spark, wanted, group=topics.group, to_topic=target, key="string(body)", checkpoint=str(checkpoint))
        # as if the driver had died before it noted that the first batch is done
        for file in (*(checkpoint / "commits").iterdir(), *(checkpoint / "offsets").iterdir()):
            if file.parent.name == "commits" or file.name not in ("0", ".0.crc"):
                file.unlink()
        (checkpoint / "pyromq" / "sent" / "marker").write_text('{"batch": -1, "ends": {}}')
    assert bodies(Selection(topics=(target,), nameserver=topics.nameserver).frame(spark).collect()).total() == 60


# --- store -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """A folder that a broker left behind: two topics over two log files, what was sent, and all columns over TCP."""
    folder = tmp_path_factory.mktemp("store")
    settings = BrokerSettings(store=SMALL_FILES.__class__(**{**_fields(SMALL_FILES), "segment_bytes": 1 << 20}))
    sent: dict[str, list[str]] = {}
    with LoopbackBroker(settings, folder=folder) as broker, Topics(broker.nameserver, "store") as topics:
        for suffix in ("-a", "-b"):
            topic = topics.make(suffix)
            sent[topic] = topics.send(topic, [f"{suffix}{number}" * 300 for number in range(800)], tags=f"t{suffix}")
    return folder, sent


def _fields(settings: Any) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__dataclass_fields__}


def test_a_store_is_read_without_its_broker(spark: Any, store: tuple[Path, dict[str, list[str]]]) -> None:
    folder, sent = store
    assert len(list((folder / "commitlog").iterdir())) > 1
    for topic, texts in sent.items():
        rows = read_store(spark, folder, topics=[topic], broker="b").collect()
        assert bodies(rows) == Counter(texts)
        assert {(row["topic"], row["broker"], row["tags"]) for row in rows} == {(topic, "b", f"t{topic[-2:]}")}
        offsets = Counter((row["queue_id"], row["queue_offset"]) for row in rows)
        assert set(offsets) == {(queue, offset) for queue in (0, 1) for offset in range(len(texts) // 2)}


def test_small_stretches_give_every_record_once(spark: Any, store: tuple[Path, dict[str, list[str]]]) -> None:
    folder, sent = store
    frame = spark.read.format("pyromq").schema("topic string, body binary").option("storePath", str(folder))
    frame = frame.option("minPartitions", 5).load()
    assert frame.rdd.getNumPartitions() >= 5
    rows = frame.collect()
    assert bodies(rows) == Counter(text for texts in sent.values() for text in texts)


def test_a_folder_without_a_log_is_named(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError, match="no commitlog"):
        read_store(spark, tmp_path)
