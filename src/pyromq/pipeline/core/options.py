"""Options of the source, parsed and checked once on the driver; names are Kafka's where the meaning is the same.

``OPTIONS`` is the one list of them: parsing, the table in docs/how-to/spark.md and its test all follow it. Spark hands
options over as texts with names in lower case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, TypeAlias

from pyromq.client.core.settings import ClientSettings
from pyromq.pipeline.core import option_texts as texts
from pyromq.pipeline.core.errors import OptionError
from pyromq.pipeline.core.kafka_names import counterpart, kafka_hint
from pyromq.pipeline.core.keywords import closest
from pyromq.pipeline.core.offsets import queue_text
from pyromq.pipeline.core.option_texts import LaneChoice, PayloadMode, StoreFolderOption
from pyromq.pipeline.core.places import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    AtTimes,
    NoMatch,
    RelativeOffset,
    Where,
    is_latest,
    names,
    within,
)
from pyromq.typed.schemas.given import BodySchema
from pyromq.typed.schemas.payloads import PayloadFormat

Rule: TypeAlias = tuple[Any, ...]
"""The option that is wrong unless the rule holds; whether it holds; the rule in words; other options it is about."""


class Use(Enum):
    """Which reads an option is for."""

    BOTH = "both"
    STREAM = "stream"
    BATCH = "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a query asks for. Frozen, so it travels to workers with every reader."""

    nameserver: str = ""
    topics: tuple[str, ...] = ()
    topic_pattern: str = ""
    group: str = ""
    exclusive: bool = False
    starting: Where = RelativeOffset.EARLIEST
    ending: Where = RelativeOffset.LATEST
    starting_no_match: NoMatch = NoMatch.LATEST
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    max_bytes: int | None = None
    min_partitions: int | None = None
    max_partitions: int | None = None
    max_records: int | None = None
    fail_on_data_loss: bool = True
    tags: str = ""
    sql: str = ""
    push_filters: bool = False
    include_retry: bool = False
    lane: LaneChoice = LaneChoice.AUTO
    properties_as_map: bool = True
    payload: PayloadFormat | None = None  # how bodies are written; None: they are not decoded
    schema: str = field(default="", repr=False)  # of bodies: any form of ``typed.schemas.given``, topic, registry:URL
    body_schema: BodySchema | None = None  # once it is looked up
    mode_of_bad_rows: PayloadMode = PayloadMode.PERMISSIVE
    bad_rows: str = ""  # the topic that messages go to whose bodies cannot be decoded
    pull_count: int = 1_024
    gather_bytes: int = 2 << 20
    batch_rows: int = 5_000
    long_poll_ms: int = 300
    retry_ms: int = 60_000
    request_ms: int = 5_000
    discovery_ms: int = 10_000
    namespace: str = ""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    security_token: str = field(default="", repr=False)
    tls: bool | None = None
    tls_ca: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    tls_verify: bool = True
    tls_hostname: str = ""
    store_folders: tuple[StoreFolderOption, ...] = ()
    store_verify: bool = True

    @property
    def is_typed(self) -> bool:
        """Whether bodies are decoded; ``payload`` may have to be looked up with the schema."""
        return self.payload is not None or texts.is_looked_up(self.schema)


@dataclass(frozen=True, slots=True)
class SourceOption:
    """One option: its name, the field it fills, how its text is read, where it applies, its default in words."""

    name: str
    field: str
    parse: Callable[[str], Any]
    use: Use
    default: str


@dataclass(frozen=True, slots=True)
class OptionTable:
    """All options of the source, or of the sink. ``acts`` are reads or writes, ``page`` documents them."""

    whose: str
    acts: str
    page: str
    options: tuple[SourceOption, ...]
    ignored: frozenset[str] = frozenset()  # what Spark adds, in lower case

    def parse(self, given: Mapping[str, str], use: Use, mistakes: Mistakes) -> Iterator[tuple[SourceOption, Any]]:
        """Each option that is given and right, with its value; of the others ``mistakes`` say."""
        by_lower_name = {option.name.lower(): option for option in self.options}
        for key, text in given.items():
            if key.lower() in self.ignored:
                continue
            option = by_lower_name.get(key.lower())
            if option is None:
                self._refuse(key, use, mistakes)
            elif option.use not in (Use.BOTH, use):
                instead = f"; {_INSTEAD[option.name]}" if option.name in _INSTEAD else ""
                mistakes.add(option.name, f"it is for {option.use.value} {self.acts} only{instead}")
            else:
                try:
                    value = option.parse(str(text))
                except ValueError as error:
                    mistakes.add(option.name, str(error))
                else:
                    yield option, value

    def _refuse(self, key: str, use: Use, mistakes: Mistakes) -> None:
        known = [option.name for option in self.options]
        names = [option.name for option in self.options if option.use in (Use.BOTH, use)]
        meant = counterpart(key) if counterpart(key) in known else closest(key, known)
        hint = kafka_hint(key) or (
            f"did you mean {meant}?" if meant else f"its options are {', '.join(names)} ({self.page})"
        )
        mistakes.add(key, f"the {self.whose} has no such option; {hint}")
        mistakes.excuse(meant)


_NO_TRIGGER: Final = "a batch has no triggers, it reads to endingOffsets or endingTimestamp"
_INSTEAD: Final = {
    **dict.fromkeys(("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"), _NO_TRIGGER),
    "maxBytesPerTrigger": _NO_TRIGGER,
    "endingOffsets": "a stream has no end, availableNow reads what is there",
    "endingTimestamp": "a stream has no end, availableNow reads what is there",
    "endingOffsetsByTimestamp": "a stream has no end, availableNow reads what is there",
}
"""What to do instead of giving an option where it does not apply."""


class Mistakes:
    """In options, as they are found, so that all are reported at once; of each option the first."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}
        self._excused: set[str] = set()

    def add(self, option: str, reason: str) -> None:
        self._found.setdefault(option, reason)

    def excuse(self, option: str) -> None:
        """That it is missing follows from a mistake that is reported already."""
        self._excused.add(option)

    def check(self, rules: Iterable[Rule]) -> None:
        """What no option can know alone; not where one of the options is wrong by itself."""
        for option, holds, reason, *others in rules:
            known = self._found.keys() | self._excused
            if not holds and not known & {option, *others}:
                self.add(option, reason)

    def raise_any(self) -> None:
        """Raise OptionError if there were mistakes."""
        if self._found:
            first, *more = self._found.items()
            raise OptionError(*first, *more)


OPTIONS: Final = (
    SourceOption("nameserver", "nameserver", texts.nameservers, Use.BOTH, "`PYROMQ_NAMESERVER`, `127.0.0.1:9876`"),
    SourceOption("topic", "topics", texts.topics, Use.BOTH, "–"),
    SourceOption("topicPattern", "topic_pattern", texts.pattern, Use.BOTH, "–"),
    SourceOption("group", "group", texts.group, Use.BOTH, "–"),
    SourceOption("exclusive", "exclusive", texts.switch, Use.STREAM, "`false`"),
    SourceOption("startingOffsets", "starting", texts.place, Use.BOTH, "`latest`, `earliest` in batch"),
    SourceOption("startingTimestamp", "starting", texts.time, Use.BOTH, "–"),
    SourceOption("startingOffsetsByTimestamp", "starting", texts.times, Use.BOTH, "–"),
    SourceOption("startingOffsetsByTimestampStrategy", "starting_no_match", texts.no_match, Use.BOTH, "`latest`"),
    SourceOption("endingOffsets", "ending", texts.place, Use.BATCH, "`latest`"),
    SourceOption("endingTimestamp", "ending", texts.time, Use.BATCH, "–"),
    SourceOption("endingOffsetsByTimestamp", "ending", texts.times, Use.BATCH, "–"),
    SourceOption("maxOffsetsPerTrigger", "max_offsets", texts.count, Use.STREAM, "–"),
    SourceOption("minOffsetsPerTrigger", "min_offsets", texts.count, Use.STREAM, "–"),
    SourceOption("maxTriggerDelay", "max_trigger_delay_ms", texts.duration, Use.STREAM, "`15m`"),
    SourceOption("maxBytesPerTrigger", "max_bytes", texts.size, Use.STREAM, "–"),
    SourceOption("minPartitions", "min_partitions", texts.count, Use.BOTH, "–"),
    SourceOption("maxPartitions", "max_partitions", texts.count, Use.BOTH, "four per core, at least 8"),
    SourceOption("maxRecordsPerPartition", "max_records", texts.count, Use.BOTH, "–"),
    SourceOption("failOnDataLoss", "fail_on_data_loss", texts.switch, Use.BOTH, "`true`"),
    SourceOption("tags", "tags", texts.tags, Use.BOTH, "–"),
    SourceOption("sql", "sql", texts.text_of, Use.BOTH, "–"),
    SourceOption("pushFilters", "push_filters", texts.switch, Use.BATCH, "`false`"),
    SourceOption("includeRetry", "include_retry", texts.switch, Use.BOTH, "`false`"),
    SourceOption("lane", "lane", texts.lane, Use.BOTH, "`auto`"),
    SourceOption("properties", "properties_as_map", texts.properties, Use.BOTH, "`map`"),
    SourceOption("payload", "payload", texts.payload, Use.BOTH, "–"),
    SourceOption("schema", "schema", texts.text_of, Use.BOTH, "–"),
    SourceOption("badRows", "bad_rows", texts.bad_rows_topic, Use.BOTH, "–"),
    SourceOption("payloadMode", "mode_of_bad_rows", texts.payload_mode, Use.BOTH, "`permissive`"),
    SourceOption("pullBatchSize", "pull_count", texts.count, Use.BOTH, "`1024`"),
    SourceOption("gatherBytes", "gather_bytes", texts.gather_size, Use.BOTH, "`2m`"),
    SourceOption("batchRows", "batch_rows", texts.count, Use.BOTH, "`5000`"),
    SourceOption("longPoll", "long_poll_ms", texts.duration, Use.STREAM, "`300ms`"),
    SourceOption("retryTimeout", "retry_ms", texts.duration, Use.BOTH, "`60s`"),
    SourceOption("requestTimeout", "request_ms", texts.duration, Use.BOTH, "`5s`"),
    SourceOption("discoveryInterval", "discovery_ms", texts.duration, Use.BOTH, "`10s`"),
    SourceOption("namespace", "namespace", texts.text_of, Use.BOTH, "–"),
    SourceOption("accessKey", "access_key", texts.text_of, Use.BOTH, "–"),
    SourceOption("secretKey", "secret_key", texts.text_of, Use.BOTH, "–"),
    SourceOption("securityToken", "security_token", texts.text_of, Use.BOTH, "–"),
    SourceOption("tls", "tls", texts.switch, Use.BOTH, "`PYROMQ_TLS`, `false`"),
    SourceOption("tlsCa", "tls_ca", texts.text_of, Use.BOTH, "–"),
    SourceOption("tlsCertificate", "tls_certificate", texts.text_of, Use.BOTH, "–"),
    SourceOption("tlsKey", "tls_key", texts.text_of, Use.BOTH, "–"),
    SourceOption("tlsVerify", "tls_verify", texts.switch, Use.BOTH, "`true`"),
    SourceOption("tlsHostname", "tls_hostname", texts.text_of, Use.BOTH, "–"),
    SourceOption("storePath", "store_folders", texts.store_folders, Use.BATCH, "–"),
    SourceOption("storeVerify", "store_verify", texts.switch, Use.BATCH, "`true`"),
)
LANE_MARK: Final = "__lane"
"""Given by the JVM lane, not by users: the plan is for it (``Lane.java``)."""
_TABLE: Final = OptionTable("source", "reads", "docs/how-to/spark.md", OPTIONS, frozenset((LANE_MARK,)))
_PRECEDENCE: Final = (AtTime, AtTimes, AtOffsets, RelativeOffset)
"""Of the options that give one start, or one end, the first of these kinds counts: as Kafka's source has it."""
_OF_STORES: Final = frozenset(
    (
        *("storePath", "storeVerify", "topic", "tags", "startingTimestamp", "endingTimestamp"),
        *("minPartitions", "maxPartitions", "properties", "batchRows", "lane"),
        *("payload", "schema", "payloadMode"),
    )
)
"""What may be combined with storePath; all others are about brokers."""


def parse_options(given: Mapping[str, str], use: Use) -> SourceOptions:
    """Parse the options of a source. Raises OptionError, whose text names every option that is wrong."""
    chosen: dict[str, SourceOption] = {}
    values: dict[str, Any] = {}
    mistakes = Mistakes()
    for option, value in _TABLE.parse(given, use, mistakes):
        given_before = chosen.get(option.field)
        if given_before is None or _PRECEDENCE.index(type(value)) < _PRECEDENCE.index(type(values[option.field])):
            values[option.field], chosen[option.field] = value, option
    if use is Use.STREAM:
        values.setdefault("starting", RelativeOffset.LATEST)
    options = SourceOptions(**values)
    mistakes.check(_store_rules(options, [option.name for option in chosen.values()]))
    mistakes.check(_rules(options, use))
    mistakes.check(_range_rules(options))
    mistakes.raise_any()
    return replace(
        options, starting=within(options.namespace, options.starting), ending=within(options.namespace, options.ending)
    )


def check_options(given: Mapping[str, str]) -> SourceOptions:
    """The options of a batch or of a stream, where it is not known which is meant. Raises OptionError."""
    uses = {option.name.lower(): option.use for option in OPTIONS}
    meant = [uses.get(name.lower()) for name in given]
    likely, other = Use.BATCH, Use.STREAM
    if meant.count(Use.STREAM) > meant.count(Use.BATCH):
        likely, other = other, likely
    try:
        return parse_options(given, likely)
    except OptionError as error:
        try:
            return parse_options(given, other)
        except OptionError as also:
            lacks_group = likely is Use.STREAM and [name for name, _ in error.mistakes] == ["group"]
            raise (OptionError.joined(also, error) if lacks_group else error) from None


def with_nameservers_known_here(options: SourceOptions) -> SourceOptions:
    """For options that travel: workers may have another environment than the driver."""
    return replace(options, nameserver=nameservers_known_here(options.nameserver))


def nameservers_known_here(text: str) -> str:
    """Those in ``text``, or else those of this process's environment."""
    return ";".join(ClientSettings(nameservers=text).nameservers)


def _store_rules(options: SourceOptions, given: Iterable[str]) -> Iterator[Rule]:
    yield "storeVerify", options.store_folders or options.store_verify, "it needs storePath", "storePath"
    for name in given:
        is_free = not options.store_folders or name in _OF_STORES
        yield name, is_free, "it cannot be combined with storePath, which reads files and asks no broker"


def _rules(options: SourceOptions, use: Use) -> tuple[Rule, ...]:
    return (
        ("topic", options.topics or options.topic_pattern or options.store_folders,
         "say what to read with topic or topicPattern", "topicPattern", "storePath"),
        ("topicPattern", not (options.topics and options.topic_pattern), "it cannot be combined with topic"),
        ("sql", not (options.tags and options.sql), "it cannot be combined with tags"),
        ("schema", options.is_typed or not options.schema, "it needs payload, which says how bodies are written",
         "payload"),
        ("schema", options.payload is not PayloadFormat.TEXT or not options.schema,
         "text has no schema: its column is value"),
        ("schema", options.schema != texts.OF_TOPIC or (options.topics and not options.store_folders),
         "topic is the schema that a cluster keeps with a topic: name the topic in the option of that name"),
        ("payloadMode", options.is_typed or options.mode_of_bad_rows is PayloadMode.PERMISSIVE, "it needs payload",
         "payload"),
        ("badRows", options.is_typed or not options.bad_rows, "it needs payload", "payload"),
        ("badRows", not options.bad_rows or options.mode_of_bad_rows is PayloadMode.PERMISSIVE,
         "it says already what becomes of rows that cannot be decoded: leave payloadMode out"),
        ("badRows", not options.bad_rows or options.bad_rows not in options.topics,
         "it is the topic that is read; name another one"),
        ("lane", options.lane is not LaneChoice.JVM or not (options.is_typed or options.store_folders),
         "jvm reads messages of brokers as they are; payload and storePath need python, which auto chooses for them"),
        ("includeRetry", options.group or not options.include_retry, "it needs the option group", "group"),
        ("startingOffsets", options.group or options.starting is not RelativeOffset.GROUP,
         "group needs the option group", "group"),
        ("startingOffsets", use is not Use.BATCH or not is_latest(options.starting), "latest is for streams only"),
        ("endingOffsets", options.ending is not RelativeOffset.EARLIEST, "earliest would read nothing"),
        ("endingOffsets", not names(options.ending, EARLIEST), "-2 (earliest) would read nothing"),
        ("endingOffsets", options.group or options.ending is not RelativeOffset.GROUP,
         "group needs the option group", "group"),
        ("group", options.group or use is not Use.STREAM, "a stream keeps start and progress in a group; name one"),
        *connection_rules(options),
        ("startingOffsetsByTimestampStrategy",
         isinstance(options.starting, AtTime | AtTimes) or options.starting_no_match is NoMatch.LATEST,
         "it needs startingTimestamp or startingOffsetsByTimestamp", "startingTimestamp", "startingOffsetsByTimestamp"),
        _order("minPartitions", options.min_partitions, "maxPartitions", options.max_partitions),
        _order("minOffsetsPerTrigger", options.min_offsets, "maxOffsetsPerTrigger", options.max_offsets),
    )  # fmt: skip


def _range_rules(options: SourceOptions) -> Iterator[Rule]:
    """What start and end say of each other without brokers; the others are compared when a read is planned."""
    start, end = options.starting, options.ending
    if isinstance(start, AtTime) and isinstance(end, AtTime):
        yield _order("startingTimestamp", start.time_ms, "endingTimestamp", end.time_ms)
    if isinstance(start, AtOffsets) and isinstance(end, AtOffsets):
        ends = end.as_dict()
        for queue, offset in start.offsets:
            until = ends.get(queue, LATEST)
            reason = f"{offset} lies beyond {until}, where endingOffsets ends {queue_text(queue)}"
            yield "startingOffsets", until < 0 or offset <= until, reason


def connection_rules(options: SourceOptions) -> tuple[Rule, ...]:
    """Rules of the connection options that source and sink share."""
    both = ("accessKey", "secretKey")
    return (
        ("secretKey", bool(options.access_key) == bool(options.secret_key), "accessKey and secretKey go together",
         *both),
        ("securityToken", options.access_key or not options.security_token, "it needs accessKey and secretKey", *both),
        ("tlsKey", options.tls_certificate or not options.tls_key, "it needs tlsCertificate", "tlsCertificate"),
    )  # fmt: skip


def _order(low_name: str, low: int | None, high_name: str, high: int | None) -> Rule:
    holds = low is None or high is None or low <= high
    return low_name, holds, f"{low} is more than {high_name}, {high}"
