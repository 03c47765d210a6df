"""Options of ``pyromq pipeline`` that several jobs have, and what their texts mean."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyromq.cli.connection import DEFAULT_NAMESERVER, NameServerOption
from pyromq.cli.output.tables import FormOption
from pyromq.cli.output.times import parse_time

if TYPE_CHECKING:
    from pyromq.pipeline.jobs.common.selection import Selection

TopicsArgument = Annotated[list[str], typer.Argument(metavar="TOPIC…", help="One or more.")]
BeginOption = Annotated[
    str, typer.Option("--begin", metavar="TIME", help="Messages stored then or later: 2h ago, 2026-11-15T07:30.")
]
EndOption = Annotated[str, typer.Option("--end", metavar="TIME", help="Messages stored before.")]
WhereOption = Annotated[
    str, typer.Option("--where", metavar="CONDITION", help="Filter of Spark: SQL over the columns.")
]
GroupOption = Annotated[
    str, typer.Option("--group", "-g", metavar="GROUP", help="Under which brokers show the progress.")
]
CheckpointOption = Annotated[
    str, typer.Option("--checkpoint", metavar="DIR", help="Remembers how far it is; beside the output by default.")
]
RateOption = Annotated[
    float, typer.Option("--rate", min=0, metavar="NUMBER", help="Messages a second; 0: as fast as it goes.")
]
FollowOption = Annotated[
    float, typer.Option("--follow", min=0, metavar="SECONDS", help="Do not end: look for more every so often.")
]


class ParquetCompression(StrEnum):
    SNAPPY = "snappy"
    ZSTD = "zstd"
    GZIP = "gzip"
    LZ4 = "lz4"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterOptions:
    """Which messages of its topics a job reads."""

    tags: Annotated[str, typer.Option("--tags", metavar="TAGS", help="Filter of brokers: a || b.")] = ""
    sql: Annotated[str, typer.Option("--sql", metavar="SQL92", help="Filter of brokers, over properties.")] = ""
    where: WhereOption = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Where a job reads."""

    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="NAME=VALUE", help="Further option of the source; again for more."),
    ] = None
    nameserver: NameServerOption = DEFAULT_NAMESERVER

    @property
    def source_options(self) -> dict[str, str]:
        """Raises typer.BadParameter."""
        return pairs(self.option)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """Where a job runs, and in which form it answers."""

    master: Annotated[
        str, typer.Option("--master", metavar="URL", help="local[2], spark://host:7077, sc://host:15002, …")
    ] = "local[*]"
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="Setting of Spark; again for more.")
    ] = None
    spark_log: Annotated[Path | None, typer.Option(metavar="FILE", help="Append what Spark says of itself.")] = None
    output: FormOption = None

    @property
    def is_elsewhere(self) -> bool:
        """A Spark Connect server: its files are not ours."""
        return self.master.startswith("sc://")


def selection(
    topics: list[str],
    filters: FilterOptions,
    cluster: ClusterOptions,
    begin: dict[str, Any] | int | None,
    end: dict[str, Any] | int | None = None,
) -> Selection:
    """Raises typer.BadParameter."""
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
    import time

    return parse_time(text, int(time.time() * 1000)) if text else None


def times_of(begin: str, end: str) -> tuple[int | None, int | None]:
    """Raises typer.BadParameter."""
    first, behind = time_of(begin), time_of(end)
    if first is not None and behind is not None and first >= behind:
        raise typer.BadParameter(f"--begin {begin} is not before --end {end}")
    return first, behind


def place_of(time_ms: int | None, offsets: str, flag: str) -> dict[str, Any] | int | None:
    """Of ``--begin`` and ``--begin-offsets``, or ``--end``. Raises typer.BadParameter."""
    if time_ms is not None and offsets:
        raise typer.BadParameter(f"say {flag} or {flag}-offsets, one of them")
    return _offsets_of(offsets, f"{flag}-offsets") if offsets else time_ms


def _offsets_of(text: str, flag: str) -> dict[str, Any]:
    import json

    try:
        found = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"{flag}: it is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise typer.BadParameter(f'{flag}: {text!r} is not {{"topic": {{"broker": {{"0": 123}}}}}}')
    return found


def pairs(texts: list[str] | None) -> dict[str, str]:
    """Of NAME=VALUE; raises typer.BadParameter."""
    found = {}
    for text in texts or []:
        name, sign, value = text.partition("=")
        if not (sign and name):
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE")
        found[name] = value
    return found


def one_target(folder: str, topic: str, checkpoint: str, sources: list[str]) -> None:
    """Raises typer.BadParameter."""
    if topic in sources:
        raise typer.BadParameter(f"--to-topic {topic} is read: what is written to it would be read again")
    if bool(folder) == bool(topic):
        raise typer.BadParameter("say where to: --to DIR or --to-topic TOPIC, one of them")
    if topic and not checkpoint:
        raise typer.BadParameter("--to-topic needs --checkpoint DIR: a topic has no folder for it")


def page_file(path: Path | None) -> Path | None:
    """Can it be written? Better known before the work than after it. Raises typer.BadParameter."""
    if path is not None and not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"--html: there is no folder {path.parent}")
    if path is not None and path.is_dir():
        raise typer.BadParameter(f"--html: {path} is a folder, not a file")
    return path


def one_of(kinds: Any, text: str, flag: str) -> Any:
    """Raises typer.BadParameter."""
    try:
        return kinds(text)
    except ValueError as error:
        raise typer.BadParameter(f"{flag}: {text!r} is none of {', '.join(kinds)}") from error
