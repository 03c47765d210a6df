"""Options of the sink, parsed and checked on the driver; those about connections are the source's own.

``SINK_OPTIONS`` is the one list of them: parsing, the table in docs/how-to/spark-sink.md and its test all follow it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from pyromq.errors import InvalidNameError
from pyromq.model.names import validate_topic
from pyromq.pipeline.core.option_texts import OF_TOPIC, LaneChoice, is_looked_up
from pyromq.pipeline.core.options import (
    LANE_MARK,
    OPTIONS,
    Mistakes,
    OptionTable,
    Rule,
    SourceOption,
    SourceOptions,
    Use,
    connection_rules,
    with_nameservers_known_here,
)
from pyromq.typed.schemas.given import BodySchema
from pyromq.typed.schemas.payloads import PayloadFormat


class Mode(Enum):
    """What is promised about rows of a batch that Spark runs again."""

    AT_LEAST_ONCE = "at-least-once"
    IDEMPOTENT = "idempotent"
    TRANSACTIONAL = "transactional"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """What a write asks for. Frozen, so it travels to workers with every writer."""

    reaching: SourceOptions = field(default_factory=SourceOptions)
    topics: tuple[str, ...] = ()  # one: all rows go there; several: those that the column may name
    mode: Mode = Mode.AT_LEAST_ONCE
    group: str = ""  # of the producer
    sink_id: str = ""
    batch_bytes: int = 256 << 10
    in_flight: int = 8
    settle_ms: int = 1_000
    check_after_ms: int = 60_000
    checkpoint: str = ""
    payload: PayloadFormat | None = None  # how columns become bodies; None: there is a column body
    schema: str = field(default="", repr=False)
    body_schema: BodySchema | None = None  # of the columns that are there, once they are known
    lane: LaneChoice = LaneChoice.AUTO
    bad_rows: str = ""  # a topic, or a folder; empty: they end the task

    @property
    def topic(self) -> str:
        """Where all rows go; empty when a column decides."""
        return self.topics[0] if len(self.topics) == 1 else ""

    @property
    def identity(self) -> str:
        """Whose rows these are, in this life of a query and the next."""
        return self.sink_id or self.checkpoint


_SHARED: Final = (
    *("nameserver", "namespace", "retryTimeout", "requestTimeout", "discoveryInterval"),
    *("accessKey", "secretKey", "securityToken"),
    *("tls", "tlsCa", "tlsCertificate", "tlsKey", "tlsVerify", "tlsHostname"),
)
_SOURCES: Final = {option.name: option for option in OPTIONS}
_text, _count, _bytes = (_SOURCES[name].parse for name in ("namespace", "pullBatchSize", "gatherBytes"))
_duration, _topics, _group = (_SOURCES[name].parse for name in ("retryTimeout", "topic", "group"))
BATCH_BYTES_MAX: Final = 4 << 20  # what brokers accept in one request


def _mode(text: str) -> Mode:
    try:
        return Mode(text.strip().lower())
    except ValueError as error:
        raise ValueError(f"{text!r} is not one of {', '.join(mode.value for mode in Mode)}") from error


def _bad_rows(text: str) -> str:
    """Empty for ``fail``."""
    text = text.strip()
    if text.lower() == "fail":
        return ""
    if "/" in text:
        if not text.startswith("/") and "://" not in text:
            raise ValueError(f"{text!r} is a folder of unknown place: give it whole, as /data/bad or s3://bucket/bad")
        return text
    try:
        return validate_topic(text)
    except InvalidNameError as error:
        raise ValueError(f"{text!r} is neither fail, nor a topic, nor a folder: {error}") from error


def _batch_bytes(text: str) -> int:
    if (size := _bytes(text)) > BATCH_BYTES_MAX:
        raise ValueError(f"{text!r} is more than 4m, the most that brokers accept in one request")
    return int(size)


SINK_OPTIONS: Final = (
    SourceOption("topic", "topics", _topics, Use.BOTH, "the column `topic`"),
    SourceOption("mode", "mode", _mode, Use.BOTH, "`at-least-once`"),
    SourceOption("sinkId", "sink_id", _text, Use.BOTH, "the checkpoint of the query"),
    SourceOption("group", "group", _group, Use.BOTH, "made from `sinkId`"),
    SourceOption("batchBytes", "batch_bytes", _batch_bytes, Use.BOTH, "`256k`"),
    SourceOption("inFlight", "in_flight", _count, Use.BOTH, "`8`"),
    SourceOption("settleTime", "settle_ms", _duration, Use.BOTH, "`1s`"),
    SourceOption("badRows", "bad_rows", _bad_rows, Use.BOTH, "`fail`"),
    *(_SOURCES[name] for name in ("payload", "schema", "lane")),
    SourceOption("checkAfter", "check_after_ms", _duration, Use.STREAM, "`60s`"),
    SourceOption("checkpointLocation", "checkpoint", _text, Use.STREAM, "Spark's"),
    *(_SOURCES[name] for name in _SHARED),
)
_ADDED_BY_SPARK: Final = frozenset(("path", "queryname", "asyncprogresstrackingenabled", LANE_MARK))
_TABLE: Final = OptionTable("sink", "writes", "docs/how-to/spark-sink.md", SINK_OPTIONS, _ADDED_BY_SPARK)


def parse_sink_options(given: Mapping[str, str], use: Use) -> SinkOptions:
    """Parse the options of a sink. Raises OptionError, whose text names every option that is wrong."""
    own: dict[str, Any] = {}
    shared: dict[str, Any] = {}
    mistakes = Mistakes()
    for option, value in _TABLE.parse(given, use, mistakes):
        (shared if option.name in _SHARED else own)[option.field] = value
    options = SinkOptions(reaching=with_nameservers_known_here(SourceOptions(**shared)), **own)
    mistakes.check(_rules(options, use))
    mistakes.raise_any()
    return options


def _rules(options: SinkOptions, use: Use) -> tuple[Rule, ...]:
    exact = options.mode is not Mode.AT_LEAST_ONCE
    return (
        ("topic", options.topics or not exact, f"mode {options.mode.value} must know all topics; name them here"),
        ("sinkId", options.identity or not exact, "a batch write can only be repeated if it has a name; give it one",
         "checkpointLocation"),
        ("mode", use is Use.STREAM or options.mode is not Mode.TRANSACTIONAL,
         "a batch write is not transactional; idempotent writes can be repeated"),
        ("badRows", not options.bad_rows or options.bad_rows not in options.topics,
         "it is the topic that the other rows go to; name another one"),
        ("schema", options.payload or not options.schema or is_looked_up(options.schema),
         "it needs payload, which says how bodies are written", "payload"),
        ("schema", options.schema != OF_TOPIC or options.topic, "topic is the schema of one topic: name it", "topic"),
        *connection_rules(options.reaching),
    )  # fmt: skip
