"""Options of ``pyromq pipeline``, as records by what they are about, and what their texts mean."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import click

from pyromq.cli import clock
from pyromq.cli.connection import DEFAULT_NAMESERVER, NameServerOption
from pyromq.cli.declared import Argument, Option
from pyromq.cli.output.prompts import DryRunOption, YesOption
from pyromq.cli.output.tables import FormOption
from pyromq.cli.output.times import parse_time

if TYPE_CHECKING:
    from pyromq.pipeline.jobs.common.selection import Selection

_HERE: Final = "local[*]"
TopicsArgument = Annotated[list[str], Argument(metavar="TOPIC…", help="Topics to read.")]
BeginOption = Annotated[
    str,
    Option("--begin", metavar="TIME", help="Messages stored at this time or later: 2h ago, 2026-11-15T07:30."),
]
EndOption = Annotated[str, Option("--end", metavar="TIME", help="Messages stored before this time.")]
WhereOption = Annotated[
    str, Option("--where", metavar="CONDITION", help="Filter applied by Spark: SQL over the columns.")
]
GroupOption = Annotated[
    str, Option("--group", "-g", metavar="GROUP", help="Consumer group that shows the progress on brokers.")
]
CheckpointOption = Annotated[
    str,
    Option(
        "--checkpoint", metavar="DIR", help="Folder that keeps the progress of the job; by default beside the output."
    ),
]
RateOption = Annotated[float, Option("--rate", min=0, metavar="NUMBER", help="Messages per second; 0: no limit.")]
FollowOption = Annotated[
    float,
    Option("--follow", min=0, metavar="SECONDS", help="Keep running and look for new messages at this interval."),
]


class JobEngine(StrEnum):
    """Who does a job: Spark, this process alone, or whichever suits the number of messages."""

    AUTO = "auto"
    PYTHON = "python"
    SPARK = "spark"


class ParquetCompression(StrEnum):
    SNAPPY = "snappy"
    ZSTD = "zstd"
    GZIP = "gzip"
    LZ4 = "lz4"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterOptions:
    """Which messages of its topics a job reads."""

    tags: Annotated[str, Option("--tags", metavar="TAGS", help="Filter applied by brokers: a || b.")] = ""
    sql: Annotated[str, Option("--sql", metavar="SQL92", help="Filter applied by brokers, over properties.")] = ""
    where: WhereOption = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Options that say where a job reads."""

    option: Annotated[
        list[str] | None,
        Option("--option", metavar="NAME=VALUE", help="Another option of the source; may be repeated."),
    ] = None
    nameserver: NameServerOption = DEFAULT_NAMESERVER

    @property
    def source_options(self) -> dict[str, str]:
        """Connection options of the Spark source. Raises click.BadParameter."""
        return pairs(self.option)

    @property
    def reads_folders(self) -> bool:
        """Whether messages come from store folders instead of brokers."""
        return any(name.lower() == "storepath" for name in self.source_options)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """Where a job runs, and the format of its output."""

    master: Annotated[
        str,
        Option("--master", metavar="URL", help="Where Spark runs: local[2], spark://host:7077, sc://host:15002, …"),
    ] = _HERE
    conf: Annotated[
        list[str] | None, Option("--conf", metavar="NAME=VALUE", help="Setting of Spark; may be repeated.")
    ] = None
    spark_log: Annotated[Path | None, Option(metavar="FILE", help="Append Spark's own log to this file.")] = None
    output: FormOption = None

    @property
    def is_set(self) -> bool:
        """Whether somebody has said how Spark runs."""
        return bool(self.master != _HERE or self.conf or self.spark_log)

    @property
    def is_elsewhere(self) -> bool:
        """A Spark Connect server: its files are not ours."""
        return self.master.startswith("sc://")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions(SparkOptions):
    """Where a job runs that does without Spark where messages are few."""

    engine: Annotated[
        str, Option("--engine", metavar="KIND", help="auto: without Spark where messages are few; python; spark.")
    ] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFlags:
    """How ``archive`` writes, and under which group it remembers how far it is."""

    group: GroupOption = "pyromq-archive"
    checkpoint: CheckpointOption = ""
    writer: Annotated[
        str,
        Option(metavar="KIND", help="task: tasks write the files themselves, fast; spark: Spark's own writer."),
    ] = "task"
    form: Annotated[str, Option("--format", metavar="KIND", help="parquet, delta or iceberg.")] = "parquet"
    compression: Annotated[str, Option(metavar="KIND", help="snappy, zstd, gzip, lz4 or none.")] = "snappy"
    compact: Annotated[bool, Option("--compact", help="Merge small files at the end.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StretchOptions:
    """Which stretch of its topics ``replay`` sends: by time or by offset."""

    begin: BeginOption = ""
    end: EndOption = ""
    begin_offsets: Annotated[
        str, Option("--begin-offsets", metavar="JSON", help='Or by offset: {"orders":{"broker-a":{"0":123}}}.')
    ] = ""
    end_offsets: Annotated[
        str, Option("--end-offsets", metavar="JSON", help="The offsets to stop before, in the same form.")
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFlags:
    """Options that say how ``replay`` sends."""

    rate: RateOption = 0
    count: Annotated[
        int, Option("--max", min=0, metavar="NUMBER", help="Send no more than this many; 0: no limit.")
    ] = 0
    name: Annotated[
        str, Option(metavar="NAME", help="Name of the replay: run again under it, it skips what it sent before.")
    ] = ""
    dry_run: DryRunOption = False
    yes: YesOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterOptions:
    """Which dead letters ``redrive`` sends."""

    where: WhereOption = ""
    error: Annotated[
        list[str] | None,
        Option("--error", metavar="CLASS|HASH", help="Letters with this error: class or hash; may be repeated."),
    ] = None
    begin: Annotated[str, Option("--begin", metavar="TIME", help="Letters that became dead at this time or later.")] = (
        ""
    )
    end: Annotated[str, Option("--end", metavar="TIME", help="Letters that became dead before this time.")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveFlags:
    """Options that say how ``redrive`` sends."""

    dry_run: DryRunOption = False
    canary: Annotated[
        int, Option(min=0, metavar="NUMBER", help="Send this many first and see whether they become dead again.")
    ] = 0
    canary_wait: Annotated[float, Option(min=0, metavar="SECONDS", help="How long to watch the canary.")] = 30
    rate: RateOption = 0
    patch: Annotated[
        str, Option(metavar="MODULE:FUNCTION", help="Function that changes each letter before it is sent.")
    ] = ""
    only_group: Annotated[
        bool, Option("--only-group", help="Send to this group alone, not to every group of the topic.")
    ] = False
    yes: YesOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOptions:
    """What ``dedupe`` takes for a repetition."""

    key: Annotated[str, Option(metavar="SQL", help="Expression over the columns that gives the key.")] = "keys"
    within: Annotated[str, Option(metavar="SPAN", help="How long a key is remembered.")] = "1 hour"


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupeTarget:
    """Where ``dedupe`` writes, and where it remembers how far it is."""

    to: Annotated[str, Option("--to", metavar="DIR", help="Folder to write Parquet files to.")] = ""
    to_topic: Annotated[str, Option("--to-topic", metavar="TOPIC", help="Topic to send to instead.")] = ""
    checkpoint: CheckpointOption = ""
    group: GroupOption = "pyromq-dedupe"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFlags:
    """How ``table`` fills a table and keeps it tidy."""

    form: Annotated[str, Option("--format", metavar="KIND", help="delta or iceberg.")] = "delta"
    follow: FollowOption = 0
    compact: Annotated[bool, Option("--compact", help="Merge small files.")] = False
    expire: Annotated[
        float, Option(min=0, metavar="DAYS", help="Delete messages stored earlier than this; 0: none.")
    ] = 0
    commit_mb: Annotated[
        int,
        Option("--commit-size", min=1, max=1024, metavar="MEBIBYTES", help="Messages in one commit, and in memory."),
    ] = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorFlags:
    """Where ``mirror`` sends, and whose progress it brings over."""

    to: Annotated[str, Option("--to", metavar="HOST:PORT", help="Name servers of the other cluster.")]
    group: Annotated[
        list[str] | None,
        Option("--group", "-g", metavar="GROUP", help="Bring the progress of this group over; may be repeated."),
    ] = None
    name: Annotated[str, Option("--name", metavar="GROUP", help="Consumer group that shows the lag of the mirror.")] = (
        "pyromq-mirror"
    )
    to_option: Annotated[
        list[str] | None,
        Option("--to-option", metavar="NAME=VALUE", help="Option of the other cluster; may be repeated."),
    ] = None
    follow: FollowOption = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuestions:
    """Questions that ``table`` answers about a table instead of filling it."""

    where_is: Annotated[
        str, Option("--where-is", metavar="ID", help="Show the table version that brought a message.")
    ] = ""
    history: Annotated[bool, Option("--history", help="Show which offsets each table version brought.")] = False


def selection(
    topics: list[str],
    filters: FilterOptions,
    cluster: ClusterOptions,
    begin: dict[str, Any] | int | None,
    end: dict[str, Any] | int | None = None,
) -> Selection:
    """Selection of messages from topics, filters and bounds. Raises click.BadParameter."""
    from pyromq.pipeline.jobs.common.selection import Selection

    return Selection(
        topics=tuple(topics),
        nameserver=cluster.nameserver,
        begin=begin,
        end=end,
        tags=filters.tags,
        sql=filters.sql,
        where=filters.where,
        options=cluster.source_options,
    )


def time_of(text: str) -> int | None:
    return parse_time(text, clock.now_ms()) if text else None


def times_of(begin: str, end: str) -> tuple[int | None, int | None]:
    """Read ``--begin`` and ``--end``. Raises click.BadParameter."""
    first, behind = time_of(begin), time_of(end)
    if first is not None and behind is not None and first >= behind:
        raise click.BadParameter(f"--begin {begin} is not before --end {end}")
    return first, behind


def place_of(time_ms: int | None, offsets: str, flag: str) -> dict[str, Any] | int | None:
    """Bound of a selection from a time or from offsets. Raises click.BadParameter."""
    if time_ms is not None and offsets:
        raise click.BadParameter(f"give either {flag} or {flag}-offsets")
    return _offsets_of(offsets, f"{flag}-offsets") if offsets else time_ms


def _offsets_of(text: str, flag: str) -> dict[str, Any]:
    import json

    try:
        found = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"{flag}: not JSON: {error}") from error
    except RecursionError as error:
        raise click.BadParameter(f"{flag}: its JSON is nested too deeply") from error
    if not isinstance(found, dict):
        raise click.BadParameter(f'{flag}: {text!r} is not {{"topic": {{"broker": {{"0": 123}}}}}}')
    return found


def pairs(texts: list[str] | None) -> dict[str, str]:
    """Read ``NAME=VALUE`` texts. Raises click.BadParameter."""
    found = {}
    for text in texts or []:
        name, sign, value = text.partition("=")
        if not (sign and name):
            raise click.BadParameter(f"{text!r} is not NAME=VALUE")
        found[name] = value
    return found


def one_target(target: DedupeTarget, sources: list[str]) -> None:
    """Check that exactly one target is given. Raises click.BadParameter."""
    if target.to_topic in sources:
        text = f"--to-topic {target.to_topic} is also read: what is written to it would be read again"
        raise click.BadParameter(text)
    if bool(target.to) == bool(target.to_topic):
        raise click.BadParameter("give either --to DIR or --to-topic TOPIC")
    if target.to_topic and not target.checkpoint:
        raise click.BadParameter("--to-topic needs --checkpoint DIR: a topic has no folder to keep one in")


def page_file(path: Path | None) -> Path | None:
    """Checked before the work: whether the page can be written. Raises click.BadParameter."""
    if path is not None and not path.absolute().parent.is_dir():
        raise click.BadParameter(f"--html: there is no folder {path.parent}")
    if path is not None and path.is_dir():
        raise click.BadParameter(f"--html: {path} is a folder, not a file")
    return path


def one_of(kinds: Any, text: str, flag: str) -> Any:
    """Read a member of an enumeration. Raises click.BadParameter."""
    try:
        return kinds(text)
    except ValueError as error:
        raise click.BadParameter(f"{flag}: {text!r} is not one of {', '.join(kinds)}") from error
