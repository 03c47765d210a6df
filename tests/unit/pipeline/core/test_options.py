"""Options: parsed once, each mistake named."""

from __future__ import annotations

import pytest

from pyromq.model.queue import QueueId
from pyromq.pipeline.core.errors import OptionError
from pyromq.pipeline.core.option_texts import StoreFolderOption
from pyromq.pipeline.core.options import OPTIONS, SourceOptions, Use, check_options, parse_options
from pyromq.pipeline.core.places import AtOffsets, AtTime, AtTimes, RelativeOffset, Where

BATCH = {"topic": "orders"}
STREAM = {"topic": "orders", "group": "reports"}


def test_a_batch_needs_a_topic_only() -> None:
    options = parse_options(BATCH, Use.BATCH)
    assert options.topics == ("orders",)
    assert options.starting is RelativeOffset.EARLIEST
    assert options.ending is RelativeOffset.LATEST


def test_a_stream_starts_at_the_end_unless_told_otherwise() -> None:
    assert parse_options(STREAM, Use.STREAM).starting is RelativeOffset.LATEST
    assert parse_options({**STREAM, "startingOffsets": "Earliest"}, Use.STREAM).starting is RelativeOffset.EARLIEST


def test_names_are_read_in_any_case() -> None:
    given = {"TOPIC": "a, b,a", "maxpartitions": "7", "FAILONDATALOSS": "False", "nameServer": "x:1;y:2"}
    options = parse_options(given, Use.BATCH)
    assert options.topics == ("a", "b")
    assert (options.max_partitions, options.fail_on_data_loss, options.nameserver) == (7, False, "x:1;y:2")


def test_offsets_and_times() -> None:
    text = '{"orders": {"broker-a": {"0": 12, "1": -2}}}'
    found = parse_options({**BATCH, "startingOffsets": text, "endingTimestamp": "1700000000000"}, Use.BATCH)
    assert found.starting == AtOffsets(((QueueId("orders", "broker-a", 0), 12), (QueueId("orders", "broker-a", 1), -2)))
    assert found.ending == AtTime(1_700_000_000_000)


def test_offsets_are_in_the_namespace() -> None:
    text = '{"orders": {"broker-a": {"0": 12}}}'
    found = parse_options({**BATCH, "endingOffsets": text, "namespace": "shop"}, Use.BATCH)
    assert found.ending == AtOffsets(((QueueId("shop%orders", "broker-a", 0), 12),))


def test_amounts_have_units() -> None:
    given = {"maxTriggerDelay": "2m", "maxBytesPerTrigger": "64M", "retryTimeout": "1500", "longPoll": "20 ms"}
    options = parse_options({**STREAM, **given}, Use.STREAM)
    assert (options.max_trigger_delay_ms, options.max_bytes) == (120_000, 64 << 20)
    assert (options.retry_ms, options.long_poll_ms) == (1_500, 20)


def test_every_option_fills_a_field() -> None:
    fields = set(SourceOptions.__dataclass_fields__)
    assert {option.field for option in OPTIONS} == fields - {"body_schema"}, "which is looked up"
    assert len({option.name.lower() for option in OPTIONS}) == len(OPTIONS)


def test_secrets_are_not_shown() -> None:
    options = parse_options({**BATCH, "accessKey": "me", "secretKey": "hush", "securityToken": "psst"}, Use.BATCH)
    assert "hush" not in repr(options)
    assert "psst" not in repr(options)
    typed = parse_options({**BATCH, "schema": "registry:http://me:hush@host:8081"}, Use.BATCH)
    assert "hush" not in repr(typed)


@pytest.mark.parametrize(
    ("given", "use", "option", "reason"),
    [
        ({}, Use.BATCH, "topic", "say what to read"),
        ({"topic": " , "}, Use.BATCH, "topic", "names no topic"),
        ({"topic": "a/b"}, Use.BATCH, "topic", "only the characters"),
        ({"topic": "a", "topicPattern": "b.*"}, Use.BATCH, "topicPattern", "combined with topic"),
        ({"topicPattern": "("}, Use.BATCH, "topicPattern", "not a regular expression"),
        ({"topic": "a"}, Use.STREAM, "group", "name one"),
        ({"topic": "a", "group": "a b"}, Use.STREAM, "group", "only the characters"),
        ({**BATCH, "startingOffsets": "newest"}, Use.BATCH, "startingOffsets", "not earliest, latest, group"),
        ({**BATCH, "startingOffsets": "{"}, Use.BATCH, "startingOffsets", "not JSON"),
        ({**BATCH, "startingOffsets": '{"a": 3}'}, Use.BATCH, "startingOffsets", "brokers of topic a"),
        ({**BATCH, "startingOffsets": '{"a": {"b": {"x": 3}}}'}, Use.BATCH, "startingOffsets", "number of a queue"),
        ({**BATCH, "startingOffsets": '{"a": {"b": {"0": "3"}}}'}, Use.BATCH, "startingOffsets", "not an offset"),
        ({**BATCH, "startingOffsets": '{"a": {"b": {"0": -3}}}'}, Use.BATCH, "startingOffsets", "below -2"),
        ({**BATCH, "startingOffsets": "latest"}, Use.BATCH, "startingOffsets", "streams only"),
        ({**BATCH, "startingOffsets": '{"a": {"b": {"0": -1}}}'}, Use.BATCH, "startingOffsets", "streams only"),
        ({**BATCH, "startingOffsets": "group"}, Use.BATCH, "startingOffsets", "needs the option group"),
        ({**BATCH, "startingTimestamp": "now"}, Use.BATCH, "startingTimestamp", "milliseconds"),
        (
            {**BATCH, "startingOffsetsByTimestampStrategy": "error"},
            Use.BATCH,
            "startingOffsetsByTimestampStrategy",
            "needs",
        ),
        ({**BATCH, "maxOffsetsPerTrigger": "5"}, Use.BATCH, "maxOffsetsPerTrigger", "a batch has no triggers"),
        ({**STREAM, "endingTimestamp": "5"}, Use.STREAM, "endingTimestamp", "availableNow"),
        ({**BATCH, "endingOffsets": "earliest"}, Use.BATCH, "endingOffsets", "nothing"),
        ({**BATCH, "endingOffsets": '{"a": {"b": {"0": -2}}}'}, Use.BATCH, "endingOffsets", "nothing"),
        ({**STREAM, "endingOffsets": "latest"}, Use.STREAM, "endingOffsets", "batch reads only"),
        ({**BATCH, "maxOffsetsPerTrigger": "1"}, Use.BATCH, "maxOffsetsPerTrigger", "stream reads only"),
        ({**STREAM, "maxOffsetsPerTrigger": "0"}, Use.STREAM, "maxOffsetsPerTrigger", "above 0"),
        ({**STREAM, "maxOffsetsPerTrigger": "-5"}, Use.STREAM, "maxOffsetsPerTrigger", "above 0"),
        (
            {**STREAM, "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            Use.STREAM,
            "minOffsetsPerTrigger",
            "more than maxOffsetsPerTrigger",
        ),
        ({**STREAM, "maxTriggerDelay": "soon"}, Use.STREAM, "maxTriggerDelay", "15m"),
        ({**STREAM, "maxBytesPerTrigger": "1x"}, Use.STREAM, "maxBytesPerTrigger", "64m"),
        ({**BATCH, "gatherBytes": "2g"}, Use.BATCH, "gatherBytes", "more than 1g"),
        ({**BATCH, "minPartitions": "9", "maxPartitions": "3"}, Use.BATCH, "minPartitions", "more than maxPartitions"),
        ({**BATCH, "failOnDataLoss": "maybe"}, Use.BATCH, "failOnDataLoss", "neither true nor false"),
        ({**BATCH, "tags": "||"}, Use.BATCH, "tags", "names no tag"),
        ({**BATCH, "sql": " "}, Use.BATCH, "sql", "empty"),
        ({**BATCH, "tags": "a", "sql": "b > 1"}, Use.BATCH, "sql", "combined with tags"),
        ({**BATCH, "includeRetry": "true"}, Use.BATCH, "includeRetry", "option group"),
        ({**BATCH, "properties": "json"}, Use.BATCH, "properties", "neither map nor raw"),
        ({**BATCH, "accessKey": "me"}, Use.BATCH, "secretKey", "go together"),
        ({**BATCH, "securityToken": "t"}, Use.BATCH, "securityToken", "needs accessKey"),
        ({**BATCH, "tlsKey": "k.pem"}, Use.BATCH, "tlsKey", "needs tlsCertificate"),
        ({**BATCH, "maxOffsetPerTriger": "1"}, Use.STREAM, "maxOffsetPerTriger", "did you mean maxOffsetsPerTrigger"),
        (
            {**BATCH, "colour": "red"},
            Use.BATCH,
            "colour",
            "no such option; its options are nameserver, topic, .*docs/how-to/spark.md",
        ),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], use: Use, option: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason) as caught:
        parse_options(given, use)
    assert caught.value.option == option
    assert str(caught.value).startswith(f"option {option}: ")


@pytest.mark.parametrize(
    ("given", "option", "reason"),
    [
        ({"startingTimestamp": "9", "endingTimestamp": "8"}, "startingTimestamp", "9 is more than endingTimestamp, 8"),
        (
            {"startingOffsets": '{"a": {"b": {"0": 3}}}', "endingOffsets": '{"a": {"b": {"0": 2}}}'},
            "startingOffsets",
            "3 lies beyond 2, where endingOffsets ends queue 0 of topic a on broker b",
        ),
    ],
)
def test_a_start_beyond_its_end_is_named(given: dict[str, str], option: str, reason: str) -> None:
    test_a_wrong_option_is_named({**BATCH, **given}, Use.BATCH, option, reason)


def test_an_empty_range_may_be_asked_for() -> None:
    parse_options({**BATCH, "startingTimestamp": "9", "endingTimestamp": "9"}, Use.BATCH)
    text = '{"a": {"b": {"0": 3}}}'
    parse_options({**BATCH, "startingOffsets": text, "endingOffsets": text}, Use.BATCH)


def test_all_mistakes_are_told_at_once() -> None:
    given = {"topik": "a", "colour": "red", "minPartitions": "x", "group": "a b", "includeRetry": "true", "tls": "on"}
    with pytest.raises(OptionError) as caught:
        parse_options(given, Use.BATCH)
    assert [option for option, _ in caught.value.mistakes] == ["topik", "colour", "minPartitions", "group", "tls"]
    for text in ("did you mean topic?", "option minPartitions: 'x' is not", "; also option tls: 'on' is neither"):
        assert text in str(caught.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, ["topic"]),
        ({"topic": "a", "minPartitions": "x"}, ["minPartitions"]),
        ({"topic": "a", "group": "g", "maxOffsetsPerTrigger": "x"}, ["maxOffsetsPerTrigger"]),
        ({"topic": "a", "maxOffsetsPerTrigger": "5"}, ["maxOffsetsPerTrigger", "group"]),
        ({"topic": "a", "group": "g", "maxOffsetPerTriger": "5"}, ["maxOffsetPerTriger"]),
        ({"topic": "a", "longPoll": "1s", "storePath": "/a"}, ["longPoll"]),
    ],
)
def test_options_that_suit_neither_batch_nor_stream_are_named(given: dict[str, str], told: list[str]) -> None:
    with pytest.raises(OptionError) as caught:
        check_options(given)
    assert [option for option, _ in caught.value.mistakes] == told


def test_options_of_either_read_pass_while_the_read_is_not_known() -> None:
    check_options({**BATCH, "endingOffsets": "latest"})
    check_options({**STREAM, "maxOffsetsPerTrigger": "5"})
    check_options({**BATCH, "startingOffsets": "latest", "group": "g"})


def test_store_folders_have_the_names_of_their_brokers() -> None:
    options = parse_options({"storePath": " broker-a=/data/a, file:///data/b=c ", "storeVerify": "false"}, Use.BATCH)
    assert options.store_folders == (StoreFolderOption("broker-a", "/data/a"), StoreFolderOption("", "/data/b=c"))
    assert not options.store_verify


@pytest.mark.parametrize(
    ("given", "use", "option", "reason"),
    [
        ({"storePath": " , "}, Use.BATCH, "storePath", "names no store folder"),
        ({"storePath": "data/a"}, Use.BATCH, "storePath", "not an absolute path"),
        ({"storePath": "a=data"}, Use.BATCH, "storePath", "not an absolute path"),
        ({"storePath": "/a", "group": "g"}, Use.BATCH, "group", "combined with storePath"),
        ({"storePath": "/a", "sql": "a > 1"}, Use.BATCH, "sql", "combined with storePath"),
        ({"storePath": "/a", "startingOffsets": "earliest"}, Use.BATCH, "startingOffsets", "combined with storePath"),
        ({"storePath": "/a"}, Use.STREAM, "storePath", "batch reads only"),
        ({**BATCH, "storeVerify": "false"}, Use.BATCH, "storeVerify", "needs storePath"),
    ],
)
def test_what_cannot_be_asked_of_files_is_named(given: dict[str, str], use: Use, option: str, reason: str) -> None:
    test_a_wrong_option_is_named(given, use, option, reason)


BY_QUEUE = '{"orders": {"broker-a": {"0": 7}}}'
QUEUE = QueueId("orders", "broker-a", 0)


@pytest.mark.parametrize(
    ("given", "starting"),
    [
        ({"startingOffsets": "earliest", "startingTimestamp": "1"}, AtTime(1)),
        ({"startingTimestamp": "1", "startingOffsets": "earliest"}, AtTime(1)),
        ({"startingOffsetsByTimestamp": BY_QUEUE, "startingOffsets": BY_QUEUE}, AtTimes(((QUEUE, 7),))),
        ({"startingOffsets": BY_QUEUE, "startingOffsetsByTimestamp": BY_QUEUE, "startingTimestamp": "1"}, AtTime(1)),
    ],
)
def test_times_go_before_offsets(given: dict[str, str], starting: Where) -> None:
    assert parse_options({**BATCH, **given}, Use.BATCH).starting == starting


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("kafka.bootstrap.servers", "here it is nameserver"),
        ("subscribe", "here it is topic"),
        ("subscribePattern", "here it is topicPattern"),
        ("kafka.sasl.jaas.config", "accessKey and secretKey"),
        ("kafka.ssl.truststore.location", "tlsCa"),
        ("assign", "all queues of a topic"),
        ("kafka.compression.type", "mean nothing here"),
    ],
)
def test_names_of_kafkas_options_get_a_hint(name: str, hint: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options({**BATCH, name: "x"}, Use.BATCH)
    assert hint in caught.value.reason and "Kafka" in caught.value.reason


def test_kafkas_options_alone_are_all_named_and_nothing_else() -> None:
    with pytest.raises(OptionError) as caught:
        parse_options({"kafka.bootstrap.servers": "k:9092", "subscribe": "orders"}, Use.BATCH)
    assert [name for name, _ in caught.value.mistakes] == ["kafka.bootstrap.servers", "subscribe"]
