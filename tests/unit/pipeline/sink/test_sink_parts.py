"""The sink without Spark and without brokers: options, columns, keys, parcels."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import MessageRefusedError, MessageTooLargeError
from pyromq.model.queue import QueueId
from pyromq.pipeline.core.errors import OptionError, SchemaError
from pyromq.pipeline.core.options import Use
from pyromq.pipeline.sink.columns import check_sink_schema
from pyromq.pipeline.sink.joined import JoinedPacker, can_join
from pyromq.pipeline.sink.keys import KeyParts, RowKeys, digest_of, parse_key
from pyromq.pipeline.sink.options import SINK_OPTIONS, Mode, SinkOptions, parse_sink_options
from pyromq.pipeline.sink.requests import Packer, SinkRequest
from pyromq.wire.batch import decode_batch
from pyromq.wire.message_id import unique_id_time_ms
from pyromq.wire.properties import decode_properties

QUEUES = [QueueId("out", "a", 0), QueueId("out", "a", 1), QueueId("out", "b", 0)]


def parse(use: Use = Use.STREAM, **given: str) -> SinkOptions:
    return parse_sink_options({"nameserver": "n:1", **given}, use)


# --- options ---------------------------------------------------------------------------------------------------------


def test_options_are_read_whatever_the_case_of_their_names() -> None:
    options = parse(TOPIC="a, b", batchbytes="64k", mode="Idempotent", checkpointLocation="/c", retryTimeout="2s")
    assert (options.topics, options.topic, options.batch_bytes) == (("a", "b"), "", 65536)
    assert (options.mode, options.identity, options.reaching.retry_ms) == (Mode.IDEMPOTENT, "/c", 2_000)


@pytest.mark.parametrize(
    ("use", "given", "words"),
    [
        (Use.STREAM, {"mode": "once"}, "option mode: 'once' is not one of at-least-once, idempotent, transactional"),
        (Use.STREAM, {"topik": "a"}, "option topik: the sink has no such option; did you mean topic?"),
        (Use.STREAM, {"mode": "idempotent", "checkpointLocation": "/c"}, "option topic: mode idempotent must know"),
        (Use.BATCH, {"mode": "idempotent", "topic": "a"}, "option sinkId: a batch write can only be repeated"),
        (Use.BATCH, {"mode": "transactional", "topic": "a", "sinkId": "x"}, "option mode: a batch write is not"),
        (Use.BATCH, {"checkAfter": "3s"}, "option checkAfter: it applies to stream writes only"),
        (Use.STREAM, {"batchBytes": "5m"}, "option batchBytes: '5m' is more than 4m"),
        (Use.STREAM, {"inFlight": "0"}, "option inFlight: '0' is not a number above 0"),
        (Use.STREAM, {"accessKey": "k"}, "option secretKey: accessKey and secretKey go together"),
        (Use.STREAM, {"topic": "no topic!"}, "option topic:"),
    ],
)
def test_wrong_options_are_named(use: Use, given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError) as failure:
        parse(use, **given)
    assert str(failure.value).startswith(words)


def test_every_option_has_a_name_of_its_own() -> None:
    names = [option.name.lower() for option in SINK_OPTIONS]
    assert len(set(names)) == len(names)


# --- columns ---------------------------------------------------------------------------------------------------------


def schema(text: str) -> Any:
    """From ``name type, name type``."""
    types = pytest.importorskip("pyspark.sql.types")
    known = {
        "string": types.StringType(),
        "int": types.IntegerType(),
        "timestamp": types.TimestampType(),
        "map<string;int>": types.MapType(types.StringType(), types.IntegerType()),
    }
    pairs = [column.split(" ") for column in text.split(", ")]
    return types.StructType([types.StructField(name, known[kind]) for name, kind in pairs])


@pytest.mark.parametrize(
    ("ddl", "given", "words"),
    [
        ("body int", {}, "column body must be binary or string, not int"),
        ("tags string", {}, "column body is missing"),
        ("body string, born_time timestamp", {}, "column born_time is unknown to the sink"),
        ("body string, properties map<string;int>", {}, "column properties must be map<string,string> or string, not"),
        ("body string, delay_level int, deliver_time timestamp", {}, "column deliver_time and column delay_level"),
        ("body string, queue_id int, sharding_key string", {}, "column queue_id and column sharding_key"),
        ("body string, broker string", {}, "column broker needs column queue_id"),
        ("body string, delay_level int", {"mode": "idempotent"}, "column delay_level does not go with mode idempotent"),
        ("body string, unique_key string", {"mode": "transactional"}, "column unique_key does not go with mode"),
    ],
)
def test_wrong_columns_are_named(ddl: str, given: dict[str, str], words: str) -> None:
    with pytest.raises(SchemaError) as failure:
        check_sink_schema(schema(ddl), parse(topic="out", checkpointLocation="/c", **given))
    assert str(failure.value).startswith(words)


def test_without_a_topic_option_there_must_be_a_column() -> None:
    with pytest.raises(SchemaError, match="column topic is missing"):
        check_sink_schema(schema("body string"), parse())
    check_sink_schema(schema("body string, topic string"), parse())


# --- keys ------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_keys_say_which_row_they_name(batch: int, partition: int, row: int, run: int) -> None:
    key = RowKeys("query", batch, partition, run).of_row(row)
    assert parse_key(key) == KeyParts(digest_of("query"), batch, partition, row, run)


def test_tools_take_a_key_for_an_id_of_this_month() -> None:
    key = RowKeys("query", 1, 2).of_row(3)
    assert unique_id_time_ms(key, now_ms=9_000, month_start_ms=5_000, previous_month_start_ms=0) == 5_000


def test_a_row_with_an_identity_has_the_same_key_in_every_partition() -> None:
    one, two = RowKeys("query", 1, 2), RowKeys("query", 5, 6)
    assert one.of_own("order-1") == two.of_own("order-1") != two.of_own("order-2")
    assert len(one.of_own("order-1")) == len(one.of_row(0)) == 56
    assert RowKeys("other", 1, 2).of_own("order-1") != one.of_own("order-1")


@pytest.mark.parametrize("text", ["", "short", "Z" * 56, "1" * 56])
def test_other_keys_are_not_ours(text: str) -> None:
    assert parse_key(text) is None


# --- parcels ---------------------------------------------------------------------------------------------------------


def packer(options: SinkOptions | None = None, **more: Any) -> Packer:
    return Packer(options or parse(topic="out"), RowKeys("query", 1, 2), lambda topic: QUEUES, **more)


def joining(options: SinkOptions | None = None) -> JoinedPacker:
    return JoinedPacker(options or parse(topic="out"), RowKeys("query", 1, 2))


def packed(made: Packer | JoinedPacker, *batches: pa.RecordBatch) -> list[SinkRequest]:
    return [request for batch in batches for request in made.pack(batch)] + list(made.rest())


def rows_of(requests: list[SinkRequest]) -> list[tuple[bytes, dict[str, str]]]:
    items = [item for request in requests for item in decode_batch(request.body)]
    return [(item.body, decode_properties(item.properties)) for item in items]


@pytest.mark.parametrize("make", [joining, packer])
def test_rows_are_cut_into_requests_of_the_size_asked_for(make: Callable[[SinkOptions], Packer | JoinedPacker]) -> None:
    options = parse(topic="out", batchBytes="4k")
    bodies = [b"x" * (number % 90 + 1) for number in range(300)]
    made = make(options)
    requests = packed(made, pa.record_batch({"body": bodies, "tags": ["t"] * 300}))
    assert [body for body, _ in rows_of(requests)] == bodies
    assert all(len(request.body) <= 4096 for request in requests) and len(requests) > 5
    keys = [key for request in requests for key in request.keys]
    assert keys == [RowKeys("query", 1, 2).of_row(row) for row in range(300)] and made.row == 300
    assert [properties["UNIQ_KEY"] for _, properties in rows_of(requests)] == keys


@pytest.mark.parametrize("make", [joining, packer])
def test_rows_go_on_counting_from_batch_to_batch(make: Callable[[], Packer | JoinedPacker]) -> None:
    [request] = packed(make(), pa.record_batch({"body": [b"a"]}), pa.record_batch({"body": [b"b", b"c"]}))
    assert [parse_key(key).row for key in request.keys] == [0, 1, 2]  # type: ignore[union-attr]
    assert request.body == packed(make(), pa.record_batch({"body": [b"a", b"b", b"c"]}))[0].body


_words = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02|"), max_size=9)
_rows = st.lists(st.tuples(st.binary(min_size=1, max_size=1500), _words, _words), min_size=1, max_size=40)


@given(st.lists(_rows, max_size=4), st.booleans())
def test_joined_requests_are_those_of_rows_that_are_looked_at(batches: list[Any], with_properties: bool) -> None:
    def batch_of(rows: list[Any]) -> pa.RecordBatch:
        body, tags, keys = zip(*rows, strict=True)
        columns = {"body": pa.array(body, pa.binary()), "tags": pa.array(tags, pa.string())}
        columns["keys"] = pa.array(keys, pa.string())
        if with_properties:
            columns["properties"] = pa.array([f"shop\x01{number}\x02" for number in range(len(rows))])
        return pa.record_batch(columns)

    options = parse(topic="out", batchBytes="2k")
    made = [pa.Table.from_batches([batch_of(rows)]).slice(0).to_batches()[0] for rows in batches]
    joined, looked_at = packed(joining(options), *made), packed(packer(options), *made)
    assert [(request.body, list(request.keys)) for request in joined] == [(each.body, each.keys) for each in looked_at]


@pytest.mark.parametrize(
    ("columns", "holds"),
    [
        ("body keys tags properties", True),
        ("body flag", False),
        ("body queue_id", False),
        ("body sharding_key", False),
        ("body delay_level", False),
        ("body deliver_time", False),
        ("body unique_key", False),
    ],
)
def test_rows_that_differ_in_more_than_text_are_not_joined(columns: str, holds: bool) -> None:
    assert can_join(columns.split(), parse(topic="out")) is holds
    assert not can_join(columns.split(), parse(topic="out,other"))


def test_properties_come_from_columns_and_rocketmqs_own_are_left_out() -> None:
    raw = "UNIQ_KEY\x01old\x02shop\x01north\x02TAGS\x01old\x02CLUSTER\x01c\x02x\x01y"
    batch = pa.record_batch({"body": ["é"], "keys": [["a", "b"]], "tags": ["new"], "properties": [raw]})
    [(body, properties)] = rows_of(packed(packer(), batch))
    assert rows_of(packed(joining(), batch)) == [(body, properties)]
    assert body.decode() == "é"
    key = properties.pop("UNIQ_KEY")
    assert key != "old" and properties == {"TAGS": "new", "KEYS": "a b", "shop": "north", "x": "y"}
    maps = pa.array([[("shop", "north"), ("KEYS", "old"), ("empty", "")]], pa.map_(pa.string(), pa.string()))
    [(_, properties)] = rows_of(packed(packer(), pa.record_batch([pa.array([b"x"]), maps], ["body", "properties"])))
    assert set(properties) == {"UNIQ_KEY", "shop"}


def test_a_sharding_key_chooses_the_queue_that_other_clients_choose() -> None:
    batch = pa.record_batch({"body": [b"1", b"2", b"3"], "sharding_key": ["k", None, "k"]})
    requests = packed(packer(), batch)
    pinned = [request for request in requests if request.queue is not None]
    assert [request.queue for request in pinned] == [QUEUES[107 % 3]], "the hash of k is 107"
    assert [body for body, _ in rows_of(pinned)] == [b"1", b"3"]


def test_a_queue_is_named_by_number_and_broker() -> None:
    batch = pa.record_batch({"body": [b"1", b"2"], "queue_id": [0, 0], "broker": [None, "b"]})
    assert [request.queue for request in packed(packer(), batch)] == [QUEUES[0], QUEUES[2]]


def test_delayed_rows_travel_alone() -> None:
    batch = pa.record_batch({"body": [b"now", b"later"], "delay_level": [0, 3]})
    later, now = packed(packer(), batch)
    assert later.properties is not None and later.properties.endswith("DELAY\x013\x02") and later.body == b"later"
    assert now.properties is None
    times = pa.record_batch(
        [pa.array([b"x"]), pa.array([1_500_000], pa.timestamp("us", tz="UTC"))], ["body", "deliver_time"]
    )
    [timed] = packed(packer(), times)
    assert timed.properties is not None and timed.properties.endswith("TIMER_DELIVER_MS\x011500\x02")


def test_rows_that_are_there_already_are_left_out_and_counted() -> None:
    made = packer(is_sent=lambda key, body: body == b"b")
    requests = packed(made, pa.record_batch({"body": [b"a", b"b", b"c"]}))
    assert [body for body, _ in rows_of(requests)] == [b"a", b"c"] and made.skipped == 1
    assert [parse_key(key).row for key in requests[0].keys] == [0, 2]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"body": [b"x", b""]}, "column body, row 1: it is empty"),
        ({"body": [b"x", None]}, "column body, row 1: it is empty"),
        ({"body": [b"x"], "tags": ["a|b"]}, r"column tags, row 0"),
        ({"body": [b"x"], "keys": ["a\x01b"]}, r"column keys, row 0"),
        ({"body": [b"x"], "properties": ["shop\x01a\x01b\x02"]}, r"column properties, row 0"),
        ({"body": [b"x"], "delay_level": [19]}, r"column delay_level, row 0: 19 is outside"),
        ({"body": [b"x"], "queue_id": [7]}, r"column queue_id, row 0: topic out has no queue 7"),
    ],
)
def test_what_no_broker_takes_is_refused_with_column_and_row(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(MessageRefusedError, match=words):
        packed(packer(), pa.record_batch(columns))
    if can_join(columns, parse(topic="out")):
        with pytest.raises(MessageRefusedError, match=words):
            packed(joining(), pa.record_batch(columns))


def test_topics_that_were_not_announced_are_refused() -> None:
    options = parse(topic="one,two")
    assert [
        request.topic for request in packed(packer(options), pa.record_batch({"body": [b"x"], "topic": ["two"]}))
    ] == ["two"]
    with pytest.raises(MessageRefusedError, match="column topic, row 0: three is not among"):
        packed(packer(options), pa.record_batch({"body": [b"x"], "topic": ["three"]}))
    with pytest.raises(MessageRefusedError, match="column topic, row 0"):
        packed(packer(parse()), pa.record_batch({"body": [b"x"], "topic": ["no topic!"]}))


@pytest.mark.parametrize("make", [joining, packer])
def test_rows_that_are_too_large_are_refused(make: Callable[[], Packer | JoinedPacker]) -> None:
    with pytest.raises(MessageTooLargeError):
        packed(make(), pa.record_batch({"body": [b"x" * (4 << 20)]}))
    with pytest.raises(MessageTooLargeError):
        packed(make(), pa.record_batch({"body": [b"x"], "properties": ["a\x01" + "v" * 40_000 + "\x02"]}))


def test_items_are_laid_out_as_brokers_read_them() -> None:
    [request] = packed(packer(), pa.record_batch({"body": [b"abc"], "flag": [9]}))
    total, magic, crc, flag, size = struct.unpack_from(">iiiii", request.body)
    assert (total, magic, crc, flag, size) == (len(request.body), 0, 0, 9, 3)
