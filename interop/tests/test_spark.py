"""The pipeline on Spark over either server: source, sink, consumer groups, jobs, and stores that Apache wrote."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from tests.spark.conftest import QUICK
from tests.spark.queries import Collected, run, start
from tests.spark.topics import Topics, bodies

from interop.apache import ApacheBroker, ApacheNameServer
from interop.jars import Jars
from interop.mqadmin import run_mqadmin
from interop.process import python_path
from interop.silent_sink import NAME as SILENT
from interop.silent_sink import SilentSource
from interop.tests.conftest import LADDER, apache_cluster, pyromq_cluster
from interop.tests.conftest import case as any_case
from interop.traffic import TOPICS, Expected, send_all
from interop.world import Cluster, until
from pyromq.errors import TopicNotFoundError
from pyromq.model.names import dead_letter_topic, retry_topic
from pyromq.pipeline import Dead, Record, Retry, consume, read_store, session
from pyromq.pipeline.jobs import Selection, archive, read_archive, redrive, replay

SECTION = "Spark pipeline × servers"
PATIENCE_S = 90
SHORT = "topic string, queue_id int, queue_offset bigint, tags string, body binary"


def case(name: str) -> pytest.MarkDecorator:
    return any_case(name, SECTION)


@pytest.fixture(scope="module", params=["apache", "pyromq"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, jars: Jars) -> Iterator[Cluster]:
    """Apache's broker notes every three seconds what has ended, and commits again what it asks about again meanwhile.

    It asks every thirty seconds unless told otherwise; here it asks and notes ten times as often.
    """
    folder = tmp_path_factory.mktemp(request.param)
    options = {"messageDelayLevel": LADDER, "transactionOpBatchInterval": "300"}
    is_apache = request.param == "apache"
    with apache_cluster(jars, folder, **options) if is_apache else pyromq_cluster(folder, ladder=LADDER) as running:
        yield running


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", python_path())  # of workers, which import what tests define
        places: dict[str, Any] = {"spark.sql.warehouse.dir": folder, "spark.local.dir": folder}
        started = session("local[2]", **QUICK, **places)
    started.dataSource.register(SilentSource)
    yield started
    started.stop()


@pytest.fixture(params=["jvm", "python"])
def lane(spark: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    """Each lane in turn, for the queries of a test."""
    spark.conf.set("spark.pyromq.lane", request.param)
    yield request.param
    spark.conf.unset("spark.pyromq.lane")


@pytest.fixture
def topics(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Topics]:
    name = f"{request.node.originalname}-{time.time_ns():x}"[len("test_") :]
    with Topics(cluster.nameserver, name) as made:
        yield made


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


def rows_of(spark: Any, topics: Topics, topic: str, **options: object) -> list[Any]:
    """All that lies in a topic."""
    found: list[Any] = spark.read.format("pyromq").options(**topics.options(topic, **options)).load().collect()
    return found


def texts_of(spark: Any, topics: Topics, topic: str, **options: object) -> Counter[str]:
    return bodies(rows_of(spark, topics, topic, **options))


def held(topics: Topics, topic: str) -> int:
    """How many messages a topic has; none when it was not made yet."""
    try:
        return sum(each.max_offset - each.min_offset for each in topics.admin.topics.stats(topic).values())
    except TopicNotFoundError:
        return 0


def queue_ends(topics: Topics, topic: str) -> dict[int, int]:
    return {queue.number: topics.admin.offsets.range(queue).max_offset for queue in topics.queues(topic)}


# --- source ----------------------------------------------------------------------------------------------------------


@case("source: a batch, every column, lane {lane}")
def test_a_batch_read(spark: Any, topics: Topics, lane: str) -> None:
    topic = topics.make(queues=3)
    sent = topics.send(topic, range(60), tags="new", keys="k1 k2", properties={"colour": "green"}, flag=7)
    sent += topics.send(topic, ["x" * 9_000])  # compressed on its way
    rows = rows_of(spark, topics, topic)
    assert bodies(rows) == Counter(sent)
    assert {(row.topic, row.broker) for row in rows} == {(topic, "broker-a")}
    first = next(row for row in rows if row.tags == "new")
    assert (first["keys"], first.flag, first.properties["colour"]) == ("k1 k2", 7, "green")
    known = topics.admin.messages.by_offset_id(first.offset_message_id)
    assert (known.queue_id, known.offset, known.body) == (first.queue_id, first.queue_offset, bytes(first.body))
    assert (known.message_id, known.position) == (first.message_id, first.commit_log_offset)
    narrow = topics.options(topic)
    places = spark.read.format("pyromq").options(**narrow).schema("queue_id int, queue_offset bigint").load().collect()
    assert len({tuple(row) for row in places}) == 61


@case("source: a stream in batches of a size, its group shown by mqadmin consumerProgress, lane {lane}")
def test_a_stream(
    spark: Any, topics: Topics, lane: str, cluster: Cluster, checkpoint: str, jars: Jars, tmp_path: Path
) -> None:
    topic = topics.make(queues=2)
    topics.send(topic, range(50))
    options = topics.options(topic, group=topics.group, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    sink = run(spark, options, checkpoint, schema=SHORT)
    assert sink.sizes == [20, 20, 10]
    until(lambda: topics.committed(topic) == {0: 25, 1: 25}, what="the group stands at the end")
    topics.send(topic, range(50, 57))
    run(spark, {**options, "maxOffsetsPerTrigger": "4"}, checkpoint, sink, schema=SHORT)
    assert bodies(sink.rows) == Counter(topics.sent) and sink.sizes[:3] == [20, 20, 10]
    until(lambda: sum(offset or 0 for offset in topics.committed(topic).values()) == 57, what="progress is stored")
    topics.send(topic, ["waits"])
    printed = run_mqadmin(jars, tmp_path, "consumerProgress", "-g", topics.group, "-n", cluster.nameserver)
    lines = [line.split() for line in printed.splitlines() if line.startswith(topic[:32])]
    assert len(lines) == 2, printed
    assert sum(int(line[3]) for line in lines) == 58 and sum(int(line[4]) for line in lines) == 57, printed


@case("source: a stream from latest hears what comes, and of new queues, lane {lane}")
def test_a_stream_from_latest(spark: Any, topics: Topics, lane: str, checkpoint: str) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, ["before"])
    sink = Collected()
    options = topics.options(topic, group=topics.group, discoveryInterval="500ms")
    query = start(spark, options, checkpoint, sink, SHORT, processingTime="0 seconds")
    try:
        until(lambda: topics.committed(topic) == {0: 1}, PATIENCE_S, "the start is stored in the group")
        expected = Counter(topics.send(topic, ["one"]))
        until(lambda: bodies(sink.rows) == expected, PATIENCE_S, "what was sent arrives")
        topics.create(topic, queues=2)
        expected += Counter(topics.send(topic, ["two"], queue=1))
        until(lambda: bodies(sink.rows) == expected, PATIENCE_S, "a queue made later is read")
        until(lambda: topics.committed(topic) == {0: 2, 1: 1}, what="the group hears of it without another batch")
    finally:
        query.stop()


@case("source: filters by tags and by SQL, in batch and stream, lane {lane}")
def test_filters(spark: Any, topics: Topics, lane: str, tmp_path: Path) -> None:
    topic = topics.make(queues=2)
    for number in range(60):
        topics.send(topic, [f"m-{number}"], tags="odd" if number % 2 else "even", properties={"size": str(number)})
    odd = Counter(f"m-{number}" for number in range(1, 60, 2))
    large = Counter(f"m-{number}" for number in range(41, 60))
    assert texts_of(spark, topics, topic, tags="odd || other") == odd
    assert texts_of(spark, topics, topic, sql="size > 40") == large
    streaming = topics.options(topic, startingOffsets="earliest", maxOffsetsPerTrigger=25)
    tagged = run(spark, {**streaming, "group": f"{topics.group}-tags", "tags": "odd"}, str(tmp_path / "tags"))
    chosen = run(spark, {**streaming, "group": f"{topics.group}-sql", "sql": "size > 40"}, str(tmp_path / "sql"))
    assert bodies(tagged.rows) == odd and bodies(chosen.rows) == large
    ends = queue_ends(topics, topic)
    until(lambda: topics.committed(topic, f"{topics.group}-tags") == ends, what="progress passes what tags left out")
    until(lambda: topics.committed(topic, f"{topics.group}-sql") == ends, what="progress passes what SQL left out")


@case("source: conditions on keys, with push-down and without, lane {lane}")
def test_conditions_on_keys(spark: Any, topics: Topics, lane: str) -> None:
    topic = topics.make(queues=3)
    keys = [f"k{number % 7} all" if number % 2 else f"k{number % 7}" for number in range(60)]
    for number, each in enumerate(keys):
        topics.send(topic, [str(number)], queue=number % 3, keys=each)
    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting)
    for wanted in (["k3"], ["k3 all", "k4", "none"], ["all"]):
        where = "keys in ('" + "', '".join(wanted) + "') and queue_id < 2"
        expected = Counter(str(number) for number, each in enumerate(keys) if each in wanted and number % 3 < 2)
        for pushes in ("false", "true"):
            spark.conf.set(setting, pushes)
            frame = spark.read.format("pyromq").options(**topics.options(topic, pushFilters=pushes)).load()
            assert bodies(frame.where(where).collect()) == expected, (where, pushes)
    spark.conf.set(setting, before)


@case("source: a stretch between two times, between two offsets, and what a group has not read, lane {lane}")
def test_places(spark: Any, topics: Topics, lane: str, checkpoint: str) -> None:
    topic = topics.make(queues=2)
    parts, times = [], []
    for part in range(3):
        parts.append(Counter(topics.send(topic, [f"{part}-{number}" for number in range(6)])))
        time.sleep(0.05)
        times.append(int(time.time() * 1000))
        time.sleep(0.05)
    assert texts_of(spark, topics, topic, startingTimestamp=times[0], endingTimestamp=times[1]) == parts[1]
    assert texts_of(spark, topics, topic, startingTimestamp=times[2]) == Counter()
    begin, end = (f'{{"{topic}": {{"broker-a": {{"0": {at}, "1": {at}}}}}}}' for at in (3, 6))
    assert texts_of(spark, topics, topic, startingOffsets=begin, endingOffsets=end) == parts[1]
    late = run(spark, topics.options(topic, group=topics.group, startingTimestamp=times[1]), checkpoint)
    assert bodies(late.rows) == parts[2]
    more = Counter(topics.send(topic, ["later"]))
    until(lambda: topics.committed(topic) == {0: 9, 1: 9}, what="the group stands at the end")
    assert texts_of(spark, topics, topic, group=topics.group, startingOffsets="group") == more


@case("source: wrong names end a query with a text that says so, lane {lane}")
def test_what_is_not_there(spark: Any, topics: Topics, lane: str, checkpoint: str) -> None:
    topic = topics.make(queues=1)
    topics.send(topic, ["one"])
    with pytest.raises(PySparkException, match="no-such-topic"):
        rows_of(spark, topics, "no-such-topic", retryTimeout="2s")
    with pytest.raises(PySparkException, match=r"(?i)sql|expression|parse"):
        rows_of(spark, topics, topic, sql="size >", retryTimeout="2s")


# --- sink ------------------------------------------------------------------------------------------------------------


@case("sink: a batch with all columns, to queues of its choice and by sharding key, delayed rows, lane {lane}")
def test_a_batch_write(spark: Any, topics: Topics, lane: str) -> None:
    target = topics.make(queues=3)
    common = ("concat('row-', id) as body", "'new' as tags", "array('a', string(id)) as keys", "int(id) as flag")
    sharded = (
        *common,
        "map('shop', 'north') as properties",
        "'one' as sharding_key",
        "if(id = 7, 1, 0) as delay_level",
    )
    placed = (*common, "int(id % 3) as queue_id")
    for begin, columns in ((0, sharded), (20, placed)):
        frame = spark.range(begin, begin + 20, 1, 2).selectExpr(*columns)
        frame.write.format("pyromq").options(**topics.options(target)).mode("append").save()
    until(lambda: held(topics, target) == 40, what="the delayed row has arrived")
    rows = {bytes(row.body).decode(): row for row in rows_of(spark, topics, target)}
    assert rows.keys() == {f"row-{number}" for number in range(40)}
    assert {row.tags for row in rows.values()} == {"new"} and rows["row-9"].properties["shop"] == "north"
    assert (rows["row-9"]["keys"], rows["row-9"].flag) == ("a 9", 9)
    assert len({rows[f"row-{number}"].queue_id for number in range(20)}) == 1, "one sharding key, one queue"
    assert all(rows[f"row-{number}"].queue_id == number % 3 for number in range(20, 40))
    assert [message.body for message in topics.admin.messages.find(target, "9")] == [b"row-9"]


@case("sink: {mode}, topic to topic; a batch that is run again, lane {lane}")
@pytest.mark.parametrize(
    ("mode", "lane"),
    [
        *[("at-least-once", "jvm"), ("at-least-once", "python"), ("idempotent", "jvm"), ("idempotent", "python")],
        ("transactional", "python"),
    ],
    indirect=["lane"],
)
def test_topic_to_topic(spark: Any, topics: Topics, checkpoint: str, mode: str, lane: str) -> None:
    topic, target = topics.make(), topics.make("-to")
    sent = Counter(topics.send(topic, range(80), tags="t"))
    copy(spark, topics, topic, target, checkpoint, mode=mode)
    until(lambda: held(topics, target) == 80, PATIENCE_S, "every row is there")
    (Path(checkpoint) / "commits" / "0").unlink()  # as if the driver had died before Spark noted the batch
    sent += Counter(topics.send(topic, range(80, 90), tags="t"))
    copy(spark, topics, topic, target, checkpoint, mode=mode)
    copies = 2 if mode == "at-least-once" else 1
    until(lambda: held(topics, target) >= 80 * copies + 10, PATIENCE_S, "every row is there")
    found = texts_of(spark, topics, target)
    assert found.keys() == sent.keys()
    assert sum(found.values()) == 80 * copies + 10


def copy(
    spark: Any, topics: Topics, source: str, target: str, checkpoint: str, *, to: str = "pyromq", **options: object
) -> None:
    """One query over what there is."""
    given = topics.options(source, group=topics.group, startingOffsets="earliest")
    messages = spark.readStream.format("pyromq").options(**given).schema("body binary, tags string").load()
    writing = messages.writeStream.format(to).options(**topics.options(target, checkAfter="2s", **options))
    query = writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S), "the query did not end"


@case("sink: transactional, the broker asks about prepared messages of dead drivers and hears what was decided")
def test_check_backs(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic, target = topics.make(), topics.make("-to")
    sent = Counter(topics.send(topic, range(30)))
    with pytest.raises(PySparkException, match="it was to die here"):
        copy(spark, topics, topic, target, checkpoint, to=SILENT, place="prepared", mode="transactional")
    assert held(topics, target) == 0, "prepared messages are not seen"
    copy(spark, topics, topic, target, checkpoint, to=SILENT, place="decided", mode="transactional")
    until(lambda: held(topics, target) >= 30, PATIENCE_S, "the broker has asked and heard: commit")
    until(lambda: not topics.admin.transactions.list(target), PATIENCE_S, "and of the first life: roll back")
    assert texts_of(spark, topics, target) == sent


# --- consumer groups -------------------------------------------------------------------------------------------------


@case("consume: done, again after a delay, dead with a reason; one progress with the retries")
def test_consume(spark: Any, topics: Topics, cluster: Cluster, checkpoint: str, jars: Jars, tmp_path: Path) -> None:
    topic, notes = topics.make(), str(tmp_path / "notes")

    def handle(record: Record) -> Retry | Dead | None:
        text = record.body.decode()
        with Path(notes).open("a", encoding="utf-8") as file:
            file.write(f"{text} {record.delivery_attempt} {record.topic}\n")
        if text.startswith("bad"):
            return Dead("no such customer")
        if text.startswith("again") and not record.delivery_attempt:
            return Retry(delay_level=1)
        if text.startswith("boom"):
            raise KeyError(text)
        return None

    good = topics.send(topic, [f"good-{n}" for n in range(10)])
    again = topics.send(topic, [f"again-{n}" for n in range(4)])
    bad = topics.send(topic, [f"bad-{n}" for n in range(3)], tags="red", properties={"shop": "north"})
    boom = topics.send(topic, ["boom"])
    consumed(spark, topics, topic, handle, checkpoint, attempts_max=1)
    until(lambda: held(topics, retry_topic(topics.group)) == 5, PATIENCE_S, "the delays are over")
    counts = consumed(spark, topics, topic, handle, checkpoint, attempts_max=1)
    assert (counts.rows, counts.done, counts.retried, counts.dead) == (23, 14, 5, 4)
    seen = Path(notes).read_text().splitlines()
    first = [f"{text} 0 {topic}" for text in (*good, *again, *bad, *boom)]
    assert sorted(seen) == sorted(first + [f"{text} 1 {topic}" for text in (*again, *boom)])

    dead = dead_letter_topic(topics.group)
    until(lambda: held(topics, dead) == 4, what="dead letters are stored")
    letters = rows_of(spark, topics, dead)
    assert Counter(bytes(row.body).decode() for row in letters) == Counter([*bad, *boom])
    for row in letters:
        told = row.properties
        assert told["RETRY_TOPIC"] == topic and told["DLQ_BATCH"] and told["DLQ_SOURCE"].count("/") == 3
        expected = ("no such customer", "handler") if row.tags == "red" else ("KeyError: 'boom'", "attempts")
        assert (told["DLQ_ERROR"], told["DLQ_STAGE"]) == expected
    assert {row.properties.get("shop") for row in letters if row.tags == "red"} == {"north"}

    ends = queue_ends(topics, topic)
    until(lambda: topics.committed(topic) == ends, what="the group stands at the end")
    printed = run_mqadmin(jars, tmp_path, "consumerProgress", "-g", topics.group, "-n", cluster.nameserver)
    assert "Diff Total: 0" in printed and retry_topic(topics.group)[:32] in printed, printed


def consumed(spark: Any, topics: Topics, topic: str, handler: Any, checkpoint: str, **more: Any) -> Any:
    running = consume(
        spark, topic, topics.group, handler, nameserver=topics.nameserver, start="earliest", checkpoint=checkpoint,
        trigger={"availableNow": True}, **more,
    )  # fmt: skip
    assert running.wait(PATIENCE_S)
    return running.counts


# --- jobs ------------------------------------------------------------------------------------------------------------


@case("archive: a topic to Parquet, and what came since")
def test_archive(spark: Any, topics: Topics, tmp_path: Path) -> None:
    topic, path = topics.make(queues=3), str(tmp_path / "archive")
    selection = Selection(topics=(topic,), nameserver=topics.nameserver)
    topics.send(topic, range(30), tags="new", keys="k1", properties={"colour": "green"})
    first = archive(spark, selection, path, group=topics.group)
    topics.send(topic, range(30, 36))
    second = archive(spark, selection, path, group=topics.group)
    assert (first.messages, second.messages) == (30, 6)
    assert bodies(read_archive(spark, path).collect()) == Counter(topics.sent)
    until(lambda: topics.committed(topic) == {0: 12, 1: 12, 2: 12}, what="the group stands at the end")


@case("replay: a stretch into another topic, once under its name")
def test_replay(spark: Any, topics: Topics) -> None:
    topic, target = topics.make(queues=1), topics.make("-to")
    topics.send(topic, range(10), tags="t", keys="k", properties={"colour": "green"})
    ends = ({topic: {"broker-a": {"0": at}}} for at in (2, 7))
    wanted = Selection(topics=(topic,), nameserver=topics.nameserver, begin=next(ends), end=next(ends))
    assert replay(spark, wanted, target).found == 5
    first = replay(spark, wanted, target, name=topics.test, dry_run=False)
    until(lambda: held(topics, target) == 5, what="the copies are there")
    second = replay(spark, wanted, target, name=topics.test, dry_run=False)
    assert (first.sent, first.failed, second.sent, second.sent_before) == (5, 0, 0, 5)
    rows = rows_of(spark, topics, target)
    assert bodies(rows) == Counter(topics.sent[2:7])
    assert {(row.tags, row["keys"], row.properties["colour"]) for row in rows} == {("t", "k", "green")}


@case("redrive: dead letters back to their topic, once")
def test_redrive(spark: Any, topics: Topics, checkpoint: str) -> None:
    topic = topics.make(queues=1)
    sent = topics.send(topic, ["one", "two", "three"], tags="t")
    consumed(spark, topics, topic, lambda record: Dead("today is a holiday"), checkpoint)
    dead = dead_letter_topic(topics.group)
    until(lambda: held(topics, dead) == 3, what="dead letters are stored")
    where = "properties['DLQ_ERROR'] LIKE '%holiday%' AND string(body) <> 'two'"
    dry = redrive(spark, topics.group, nameserver=topics.nameserver, where=where)
    assert dry.is_dry and dry.found == 2
    done = redrive(spark, topics.group, nameserver=topics.nameserver, where=where, dry_run=False)
    until(lambda: held(topics, topic) == 5, what="letters are sent again")
    again = redrive(spark, topics.group, nameserver=topics.nameserver, dry_run=False)
    assert (done.sent, done.failed, again.sent, again.sent_before) == (2, 0, 1, 2)
    until(lambda: held(topics, topic) == 6, what="the last letter is sent again")
    assert texts_of(spark, topics, topic) == Counter(sent) + Counter(sent)


@pytest.mark.case("Stores both ways", "Apache writes; Spark reads the folder, while the broker runs and after kill -9")
def test_a_store_of_apache(spark: Any, jars: Jars, tmp_path: Path) -> None:
    with ApacheNameServer(jars, tmp_path / "namesrv") as names:
        broker = ApacheBroker(jars, tmp_path / "broker", names.address)
        broker.start()
        try:
            expected = asyncio.run(send_all(broker.address, 3_000, "theirs"))
            alive = differences_of(spark, broker.store_folder, expected)
        finally:
            broker.kill()
    assert alive == []
    assert differences_of(spark, broker.store_folder, expected) == []
    one = read_store(spark, broker.store_folder, topics=[TOPICS[0]], broker="broker-a", columns="topic string").count()
    assert one == sum(topic == TOPICS[0] for topic, _, _ in expected)


def differences_of(spark: Any, folder: Path, expected: Expected) -> list[str]:
    """What is not as it was acknowledged."""
    found = read_store(spark, folder, topics=TOPICS).collect()
    rows = {
        (row.topic, row.queue_id, row.queue_offset): (bytes(row.body), row["keys"], row.tags, row.message_id)
        for row in found
    }
    wanted = {place: (sent.body, f"{sent.key} all", sent.tag, f"U-{sent.key}") for place, sent in expected.items()}
    assert len(found) == len(rows)
    return [f"{place} differs" for place in wanted.keys() | rows.keys() if rows.get(place) != wanted.get(place)][:10]
