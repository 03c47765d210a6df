"""``pyromq pipeline``: jobs on Spark. Each shows how far it is on a terminal and ends with a summary."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyromq.cli.asking import YesOption, confirm
from pyromq.cli.cluster import DEFAULT_NAMESERVER, NameServerOption
from pyromq.cli.output import Column, Form, FormOption, form_for, write_fields, write_json, write_rows
from pyromq.cli.pipeline_tables import FIELDS, LETTERS, SAMPLES, write_report
from pyromq.cli.times import parse_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyromq.pipeline.jobs.topics import Selection

app = typer.Typer(help="Jobs on Spark: archive, replay, redrive, report, dedupe, store, run.", no_args_is_help=True)

TopicsArgument = Annotated[list[str], typer.Argument(metavar="TOPIC…")]
BeginOption = Annotated[str, typer.Option("--begin", help="Messages stored then or later: 2h ago, 2026-11-15T07:30.")]
EndOption = Annotated[str, typer.Option("--end", help="Messages stored before.")]
OffsetsBeginOption = Annotated[
    str, typer.Option("--begin-offsets", metavar="JSON", help='Or by offset: {"orders":{"broker-a":{"0":123}}}.')
]
OffsetsEndOption = Annotated[str, typer.Option("--end-offsets", metavar="JSON", help="The offsets behind the last.")]
TagsOption = Annotated[str, typer.Option("--tags", help="Filter of brokers: a || b.")]
SqlOption = Annotated[str, typer.Option("--sql", help="Filter of brokers: SQL92 over properties.")]
WhereOption = Annotated[str, typer.Option("--where", help="Filter of Spark: a condition over the columns.")]
GroupOption = Annotated[str, typer.Option("--group", "-g", help="Where brokers keep the progress.")]
CheckpointOption = Annotated[str, typer.Option("--checkpoint", help="Folder that remembers how far it is.")]
RateOption = Annotated[float, typer.Option("--rate", min=0, help="Messages a second; 0 means as fast as it goes.")]
FollowOption = Annotated[float, typer.Option("--follow", min=0, metavar="SECONDS", help="Go on, every so often.")]
SourceOption = Annotated[
    list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="Further option of the source.")
]
MasterOption = Annotated[str, typer.Option("--master", help="Spark's master.")]
ConfOption = Annotated[list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="Setting of Spark.")]
MASTER = "local[*]"


@app.command()
def archive(
    topics: TopicsArgument,
    to: Annotated[str, typer.Option("--to", help="Folder of the archive (Iceberg: name of the table).")],
    group: GroupOption = "pyromq-archive",
    checkpoint: CheckpointOption = "",
    writer: Annotated[
        str, typer.Option(help="task: tasks write themselves, fast; spark: Spark's own writer.")
    ] = "task",
    form: Annotated[str, typer.Option("--format", help="parquet, delta or iceberg.")] = "parquet",
    compression: Annotated[str, typer.Option(help="snappy, zstd, gzip, lz4 or none.")] = "snappy",
    compact: Annotated[bool, typer.Option("--compact", help="Merge small files at the end.")] = False,
    begin: BeginOption = "",
    tags: TagsOption = "",
    sql: SqlOption = "",
    where: WhereOption = "",
    follow: FollowOption = 0,
    option: SourceOption = None,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    master: MasterOption = MASTER,
    conf: ConfOption = None,
    output: FormOption = None,
) -> None:
    """Topics to Parquet by topic, date and hour, each message once; goes on where it ended."""
    from pyromq.pipeline.jobs import archive as job
    from pyromq.pipeline.jobs import compact_archive
    from pyromq.pipeline.jobs.archive_job import ArchiveFormat, ArchiveWriterKind

    kind, table = _one_of(ArchiveWriterKind, writer, "--writer"), _one_of(ArchiveFormat, form, "--format")
    selection = _selection(topics, nameserver, begin, tags=tags, sql=sql, where=where, option=option)
    with _spark(master, conf) as spark, _bar("archiving") as tell:
        done = job(
            spark, selection, to, group=group, checkpoint=checkpoint, writer=kind, form=table,
            compression=compression, follow_s=follow or None, tell=tell,
        )  # fmt: skip
    if compact and kind is ArchiveWriterKind.TASK:
        with _bar("merging small files") as tell:
            merged = compact_archive(to, compression=compression, tell=tell)
        typer.echo(f"{merged.files_before} files before, {merged.files_after} after", err=True)
    _write_summary(output, "archive", done)


@app.command()
def replay(
    topics: TopicsArgument,
    to: Annotated[str, typer.Option("--to", help="Topic that gets the messages.")],
    begin: BeginOption = "",
    end: EndOption = "",
    begin_offsets: OffsetsBeginOption = "",
    end_offsets: OffsetsEndOption = "",
    tags: TagsOption = "",
    sql: SqlOption = "",
    where: WhereOption = "",
    rate: RateOption = 0,
    count: Annotated[int, typer.Option("--max", min=0, help="Send at most so many; 0 means all.")] = 0,
    name: Annotated[str, typer.Option(help="Run again under its name, it does not send what it sent before.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count and show.")] = False,
    yes: YesOption = False,
    option: SourceOption = None,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    master: MasterOption = MASTER,
    conf: ConfOption = None,
    output: FormOption = None,
) -> None:
    """A stretch of topics into a topic again: counted and shown first, then sent at a set rate."""
    from pyromq.pipeline.jobs import replay as job

    selection = _selection(
        topics, nameserver, begin, end, begin_offsets, end_offsets, tags=tags, sql=sql, where=where, option=option
    )
    form = form_for(output, sys.stdout)
    with _spark(master, conf) as spark:
        with _bar("counting"):
            plan = job(spark, selection, to, count_max=count, name=name)
        if form is Form.TABLE or dry_run:
            write_rows(sys.stdout if form is Form.TABLE else sys.stderr, Form.TABLE, SAMPLES, _rows(plan.samples))
        if dry_run or not plan.found:
            _write_summary(output, "replay", plan)
            return
        confirm(f"send {plan.found} messages to topic {to}?", yes)
        with _bar("replaying") as tell:
            done = job(spark, selection, to, rate=rate or None, name=name, dry_run=False, count_max=count, tell=tell)
    _write_summary(output, "replay", done)
    if done.failed:
        raise typer.Exit(5)


@app.command()
def redrive(
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    where: WhereOption = "",
    begin: Annotated[str, typer.Option("--begin", help="Letters that died then or later.")] = "",
    end: Annotated[str, typer.Option("--end", help="Letters that died before.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be sent.")] = False,
    canary: Annotated[int, typer.Option(min=0, help="Send so many first and see whether they come back.")] = 0,
    canary_wait: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="How long to watch them.")] = 30,
    rate: RateOption = 0,
    patch: Annotated[str, typer.Option(metavar="MODULE:FUNCTION", help="Changes each letter before it is sent.")] = "",
    only_group: Annotated[bool, typer.Option("--only-group", help="To this group alone.")] = False,
    yes: YesOption = False,
    option: SourceOption = None,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    master: MasterOption = MASTER,
    conf: ConfOption = None,
    output: FormOption = None,
) -> None:
    """Dead letters to the topics they came from: chosen by SQL, a canary first, at a set rate, told of one by one."""
    from pyromq.pipeline.jobs import redrive as job
    from pyromq.pipeline.jobs.patching import find_function

    function = find_function(patch) if patch else None
    chosen: dict[str, Any] = {
        "nameserver": nameserver, "where": where, "begin": _time(begin), "end": _time(end), "patch": function,
        "only_group": only_group, "options": _pairs(option),
    }  # fmt: skip
    with _spark(master, conf) as spark:
        with _bar("reading dead letters"):
            done = job(spark, group, **chosen)
        if not dry_run and done.found:
            confirm(f"send {sum(each.outcome == 'would send' for each in done.letters)} dead letters?", yes)
            with _bar("redriving") as tell:
                done = job(
                    spark, group, dry_run=False, canary=canary, canary_wait_s=canary_wait, rate=rate or None,
                    tell=tell, **chosen,
                )  # fmt: skip
    form = form_for(output, sys.stdout)
    write_rows(sys.stdout, form, LETTERS, _rows(done.letters))
    _write_summary(Form.TABLE if form is Form.TABLE else Form.JSONL, "redrive", done, out=sys.stderr)
    if done.failed or done.held_back:
        raise typer.Exit(5)


@app.command()
def report(
    topics: TopicsArgument,
    group: Annotated[
        list[str] | None, typer.Option("--group", "-g", help="Group whose dead letters count; may be given again.")
    ] = None,
    begin: BeginOption = "",
    end: EndOption = "",
    html: Annotated[Path | None, typer.Option(help="Write a page with charts there.")] = None,
    trace_topic: Annotated[str, typer.Option(help="Where consumers write their trace.")] = "RMQ_SYS_TRACE_TOPIC",
    option: SourceOption = None,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    master: MasterOption = MASTER,
    conf: ConfOption = None,
    output: FormOption = None,
) -> None:
    """Throughput, latencies, attempts, slow keys, duplicates, dead letters and lag over time."""
    from pyromq.pipeline.jobs import page
    from pyromq.pipeline.jobs import report as job

    with _spark(master, conf) as spark, _bar("reporting") as tell:
        found = job(
            spark, topics, nameserver=nameserver, groups=group or (), begin=_time(begin), end=_time(end),
            trace_topic=trace_topic, options=_pairs(option), tell=tell,
        )  # fmt: skip
    if html is not None:
        html.write_text(page(found), encoding="utf-8")
        typer.echo(f"page: {html}", err=True)
    form = form_for(output, sys.stdout)
    if form in (Form.JSON, Form.JSONL):
        write_json(sys.stdout, found, indent=2 if form is Form.JSON else 0)
    else:
        write_report(sys.stdout, form, found)


@app.command()
def dedupe(
    topics: TopicsArgument,
    key: Annotated[str, typer.Option(help="Expression of Spark SQL that gives the key.")] = "keys",
    within: Annotated[str, typer.Option(help="How long a key is remembered.")] = "1 hour",
    to: Annotated[str, typer.Option("--to", help="Folder that gets Parquet.")] = "",
    to_topic: Annotated[str, typer.Option("--to-topic", help="Or a topic.")] = "",
    checkpoint: CheckpointOption = "",
    group: GroupOption = "pyromq-dedupe",
    begin: BeginOption = "",
    tags: TagsOption = "",
    sql: SqlOption = "",
    where: WhereOption = "",
    follow: FollowOption = 0,
    option: SourceOption = None,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    master: MasterOption = MASTER,
    conf: ConfOption = None,
    output: FormOption = None,
) -> None:
    """A topic without repetitions of its business key, into Parquet or another topic."""
    from pyromq.pipeline.jobs import dedupe as job

    selection = _selection(topics, nameserver, begin, tags=tags, sql=sql, where=where, option=option)
    with _spark(master, conf) as spark, _bar("without repetitions") as tell:
        done = job(
            spark, selection, key=key, within=within, path=to, to_topic=to_topic, checkpoint=checkpoint, group=group,
            follow_s=follow or None, tell=tell,
        )  # fmt: skip
    _write_summary(output, "dedupe", done)


@app.command()
def store(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Store folder: the one with commitlog in it.")],
    query: Annotated[
        str, typer.Option("--query", "-q", help="Spark SQL over the view messages; counts by topic without one.")
    ] = "",
    topic: Annotated[list[str] | None, typer.Option(help="Only this topic; may be given again.")] = None,
    to: Annotated[str, typer.Option("--to", help="Write Parquet there instead of showing rows.")] = "",
    count: Annotated[int, typer.Option("--max", min=1, help="Show at most so many rows.")] = 100,
    master: MasterOption = MASTER,
    conf: ConfOption = None,
    output: FormOption = None,
) -> None:
    """Query a store folder, ours or Apache RocketMQ's, without a broker."""
    from pyromq.pipeline.jobs.queries import failures_in_words
    from pyromq.pipeline.jobs.topics import absolute
    from pyromq.pipeline.store_source import read_store

    with _spark(master, conf) as spark, failures_in_words():
        columns = "" if query or to else "topic string, store_time timestamp"
        read_store(spark, folder, topics=topic or (), columns=columns).createOrReplaceTempView("messages")
        counts = "SELECT topic, count(*) AS messages, min(store_time) AS first, max(store_time) AS last FROM messages"
        found = spark.sql(query or ("SELECT * FROM messages" if to else f"{counts} GROUP BY topic ORDER BY topic"))
        if to:
            with _bar(f"writing {to}"):
                found.write.mode("errorifexists").parquet(absolute(to))
            return
        with _bar("reading the log"):
            rows = [
                {name: _shown(value) for name, value in row.asDict().items()} for row in found.limit(count).collect()
            ]
    write_rows(sys.stdout, form_for(output, sys.stdout), [Column(name, name) for name in found.columns], rows)


@app.command()
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Pipeline in TOML.")],
    check: Annotated[bool, typer.Option("--check", help="Only look whether the file is right.")] = False,
    master: MasterOption = MASTER,
    conf: ConfOption = None,
    output: FormOption = None,
) -> None:
    """Run a pipeline that a file describes: source, SQL or Python steps, sinks."""
    from pyromq.pipeline.jobs import run_file
    from pyromq.pipeline.jobs.pipeline_file import option_text, read_pipeline_file

    pipeline = read_pipeline_file(file)
    if check:
        typer.echo(f"{file} is right", err=True)
        return
    own = [f"{name}={option_text(value)}" for name, value in pipeline.spark.items()]
    with _spark(master, [*own, *(conf or [])]) as spark, _bar(pipeline.name) as tell:
        done = run_file(spark, file, tell=tell)
    _write_summary(output, "run", done)


# --- what they share -------------------------------------------------------------------------------------------------


@contextmanager
def _spark(master: str, conf: list[str] | None) -> Iterator[SparkSession]:
    """Quiet: what goes wrong is told by our own errors. Raises ConfigError for what is not installed."""
    from pyromq.errors import ConfigError
    from pyromq.pipeline.jobs.demo_job import why_not

    if missing := why_not():
        raise ConfigError(missing)
    from pyromq.pipeline import session

    settings: dict[str, object] = {"spark.ui.enabled": False, "spark.log.level": "OFF", **_pairs(conf)}
    spark = session(master, "pyromq pipeline", **settings)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _bar(title: str) -> Iterator[Any]:
    from pyromq.pipeline.jobs.bars import bar

    with bar(title) as tell:
        yield tell


def _selection(
    topics: list[str],
    nameserver: str,
    begin: str = "",
    end: str = "",
    begin_offsets: str = "",
    end_offsets: str = "",
    *,
    tags: str = "",
    sql: str = "",
    where: str = "",
    option: list[str] | None = None,
) -> Selection:
    from pyromq.pipeline.jobs.topics import Selection

    return Selection(
        topics=tuple(topics),
        nameserver=nameserver,
        begin=_offsets(begin_offsets, "--begin-offsets") if begin_offsets else _time(begin),
        end=_offsets(end_offsets, "--end-offsets") if end_offsets else _time(end),
        tags=tags,
        sql=sql,
        where=where,
        options=_pairs(option),
    )


def _time(text: str) -> int | None:
    import time

    return parse_time(text, int(time.time() * 1000)) if text else None


def _offsets(text: str, flag: str) -> dict[str, Any]:
    import json

    try:
        found = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"{flag}: it is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise typer.BadParameter(f'{flag}: {text!r} is not {{"topic": {{"broker": {{"0": 123}}}}}}')
    return found


def _pairs(texts: list[str] | None) -> dict[str, str]:
    found = {}
    for text in texts or []:
        name, sign, value = text.partition("=")
        if not (sign and name):
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE")
        found[name] = value
    return found


def _one_of(kinds: Any, text: str, flag: str) -> Any:
    try:
        return kinds(text)
    except ValueError as error:
        raise typer.BadParameter(f"{flag}: {text!r} is none of {', '.join(kinds)}") from error


def _shown(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    return value if isinstance(value, int | float | bool | dict | list | None) else str(value)


def _rows(found: Any) -> list[dict[str, Any]]:
    import msgspec

    return [msgspec.structs.asdict(each) for each in found]


def _write_summary(output: Form | None, name: str, done: Any, *, out: Any = None) -> None:
    import msgspec

    row = msgspec.to_builtins(done)
    out = out or sys.stdout
    write_fields(out, form_for(output, out), FIELDS[name], row)
