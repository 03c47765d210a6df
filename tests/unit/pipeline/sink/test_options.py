"""Options of the sink: read, or refused with their names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyromq.errors import ConfigError
from pyromq.pipeline.core.errors import OptionError
from pyromq.pipeline.core.options import Use
from pyromq.pipeline.sink.options import SINK_OPTIONS, Mode
from pyromq.pipeline.sink.sink import batch_writer, stream_writer
from tests.unit.pipeline.sink.packing import parse
from tests.unit.pipeline.structs import struct


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
        (Use.BATCH, {"checkAfter": "3s"}, "option checkAfter: it is for stream writes only"),
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


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(OptionError) as failure:
        parse(Use.BATCH, topik="a", mode="once", inFlight="0")
    assert [option for option, _ in failure.value.mistakes] == ["topik", "mode", "inFlight"]


def test_a_batch_may_say_how_often_name_servers_are_asked() -> None:
    assert parse(Use.BATCH, topic="a", discoveryInterval="3s").reaching.discovery_ms == 3_000


@pytest.mark.parametrize(
    ("writer", "words"),
    [(batch_writer, "^save mode overwrite: a topic"), (stream_writer, "^output mode complete: a topic")],
)
def test_what_spark_calls_a_mode_is_not_taken_for_our_option(writer: Callable[..., object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        writer({"topic": "a"}, struct("body binary"), True)
