"""``pyromq pipeline``: jobs on Spark. Each shows how far it is on a terminal and ends with a summary."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pyromq.cli.output.option_records import unfolded
from pyromq.cli.output.prompts import YesOption, confirm
from pyromq.cli.output.tables import Form, form_for, write_json, write_rows
from pyromq.cli.pipeline.checks import check_source, check_topics, has_dead_letters
from pyromq.cli.pipeline.options import (
    BeginOption,
    CheckpointOption,
    ClusterOptions,
    EndOption,
    FilterOptions,
    FollowOption,
    GroupOption,
    ParquetCompression,
    RateOption,
    SparkOptions,
    TopicsArgument,
    WhereOption,
    one_of,
    one_target,
    page_file,
    place_of,
    selection,
    time_of,
    times_of,
)
from pyromq.cli.pipeline.session import bar, started
from pyromq.cli.pipeline.tables import (
    LETTERS,
    SAMPLES,
    fitting,
    rows_of,
    rows_shown,
    write_found,
    write_report,
    write_summary,
)
from pyromq.errors import StoreNotFoundError

_LETTERS_SHOWN = 10
app = typer.Typer(help="Jobs on Spark: archive, replay, redrive, report, dedupe, store, run.", no_args_is_help=True)


@app.command()
@unfolded
def archive(
    topics: TopicsArgument,
    *,
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="Of the archive (Iceberg: name of the table).")],
    group: GroupOption = "pyromq-archive",
    checkpoint: CheckpointOption = "",
    writer: Annotated[
        str, typer.Option(metavar="KIND", help="task: tasks write themselves, fast; spark: Spark's own writer.")
    ] = "task",
    form: Annotated[str, typer.Option("--format", metavar="KIND", help="parquet, delta or iceberg.")] = "parquet",
    compression: Annotated[str, typer.Option(metavar="KIND", help="snappy, zstd, gzip, lz4 or none.")] = "snappy",
    compact: Annotated[bool, typer.Option("--compact", help="Merge small files at the end.")] = False,
    begin: BeginOption = "",
    filters: FilterOptions,
    follow: FollowOption = 0,
    cluster: ClusterOptions,
    run_in: SparkOptions,
) -> None:
    """Topics to Parquet, each message once; goes on where it ended.

    Files lie by topic, date and hour. A run that was interrupted is finished by the next one.
    """
    from pyromq.pipeline.jobs import ArchiveFormat, ArchiveWriterKind, compact_archive
    from pyromq.pipeline.jobs import archive as job

    kind, table = one_of(ArchiveWriterKind, writer, "--writer"), one_of(ArchiveFormat, form, "--format")
    one_of(ParquetCompression, compression, "--compression")
    by_tasks = kind is ArchiveWriterKind.TASK and table is ArchiveFormat.PARQUET
    if filters.where and by_tasks:
        raise typer.BadParameter("--where needs --writer spark: tasks write what brokers send")
    if compact and not by_tasks:
        raise typer.BadParameter("--compact is for --writer task: Spark and table formats know their own files")
    chosen = selection(topics, filters, cluster, time_of(begin))
    check_topics(cluster, *topics, group=group)
    with started(run_in) as spark, bar("archiving") as tell:
        done = job(
            spark, chosen, to, group=group, checkpoint=checkpoint, writer=kind, form=table,
            compression=compression, follow_s=follow or None, tell=tell,
        )  # fmt: skip
    if compact:
        with bar("merging small files") as tell:
            merged = compact_archive(to, compression=compression, tell=tell)
        typer.echo(f"{merged.files_before} files before, {merged.files_after} after", err=True)
    write_summary(sys.stdout, run_in.output, "archive", done)


@app.command()
@unfolded
def replay(
    topics: TopicsArgument,
    *,
    to: Annotated[str, typer.Option("--to", metavar="TOPIC", help="That gets the messages.")],
    begin: BeginOption = "",
    end: EndOption = "",
    begin_offsets: Annotated[
        str, typer.Option("--begin-offsets", metavar="JSON", help='Or by offset: {"orders":{"broker-a":{"0":123}}}.')
    ] = "",
    end_offsets: Annotated[
        str, typer.Option("--end-offsets", metavar="JSON", help="The offsets behind the last.")
    ] = "",
    filters: FilterOptions,
    rate: RateOption = 0,
    count: Annotated[int, typer.Option("--max", min=0, metavar="NUMBER", help="Send at most so many; 0: all.")] = 0,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Run again under its name, it does not send what it sent before.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count and show.")] = False,
    yes: YesOption = False,
    cluster: ClusterOptions,
    run_in: SparkOptions,
) -> None:
    """A stretch of topics into a topic again, after a look at it.

    What would be sent is counted and shown first; then it is sent in the order it was stored, at a set rate.
    """
    from pyromq.pipeline.jobs import replay as job

    first, behind = times_of(begin, end)
    chosen = selection(
        topics, filters, cluster,
        place_of(first, begin_offsets, "--begin"), place_of(behind, end_offsets, "--end"),
    )  # fmt: skip
    check_topics(cluster, *topics, to)
    form = form_for(run_in.output, sys.stdout)
    with started(run_in) as spark:
        with bar("counting"):
            chosen = chosen.frozen()  # what is sent is what was shown
            plan = job(spark, chosen, to, count_max=count, name=name)
        if form is Form.TABLE or dry_run:
            write_rows(sys.stdout if form is Form.TABLE else sys.stderr, Form.TABLE, SAMPLES, rows_of(plan.samples))
        if dry_run or not plan.found:
            write_summary(sys.stdout, run_in.output, "replay", plan)
            return
        confirm(f"send {plan.found} messages to topic {to}?", yes)
        with bar("replaying") as tell:
            done = job(spark, chosen, to, rate=rate or None, name=name, dry_run=False, count_max=count, tell=tell)
    write_summary(sys.stdout, run_in.output, "replay", done)
    if done.failed:
        raise typer.Exit(5)


@app.command()
@unfolded
def redrive(
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    *,
    where: WhereOption = "",
    begin: Annotated[str, typer.Option("--begin", metavar="TIME", help="Letters that died then or later.")] = "",
    end: Annotated[str, typer.Option("--end", metavar="TIME", help="Letters that died before.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be sent.")] = False,
    canary: Annotated[
        int, typer.Option(min=0, metavar="NUMBER", help="Send so many first and see whether they come back.")
    ] = 0,
    canary_wait: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="How long to watch them.")] = 30,
    rate: RateOption = 0,
    patch: Annotated[str, typer.Option(metavar="MODULE:FUNCTION", help="Changes each letter before it is sent.")] = "",
    only_group: Annotated[bool, typer.Option("--only-group", help="To this group alone.")] = False,
    yes: YesOption = False,
    cluster: ClusterOptions,
    run_in: SparkOptions,
) -> None:
    """Dead letters to the topics they came from, a few first.

    Chosen by SQL, patched, sent at a set rate, and told of one by one.
    """
    from msgspec.structs import replace

    from pyromq.model.names import dead_letter_topic
    from pyromq.pipeline.jobs import redrive as job
    from pyromq.pipeline.jobs.common.patching import find_function

    form = form_for(run_in.output, sys.stdout)
    function = find_function(patch) if patch else None
    died_from, died_before = times_of(begin, end)
    letters = selection([dead_letter_topic(group)], FilterOptions(), cluster, died_from, died_before)
    chosen: dict[str, Any] = {
        "nameserver": cluster.nameserver, "where": where, "begin": died_from, "patch": function,
        "only_group": only_group, "options": cluster.source_options,
    }  # fmt: skip
    if not has_dead_letters(cluster, group):
        typer.echo(f"group {group} has no dead letters", err=True)
        return
    with started(run_in) as spark:
        with bar("reading dead letters"):
            chosen["end"] = letters.frozen().end  # what is sent is what was shown
            done = job(spark, group, **chosen)
        to_send = sum(each.outcome == "would send" for each in done.letters)
        if not dry_run and to_send:
            if form is Form.TABLE and not yes:
                first = done.letters[:_LETTERS_SHOWN]
                write_rows(sys.stderr, form, fitting(sys.stderr, form, LETTERS), rows_of(first))
            confirm(f"send {to_send} dead letters?", yes)
            with bar("redriving") as tell:
                done = job(
                    spark, group, dry_run=False, canary=canary, canary_wait_s=canary_wait, rate=rate or None,
                    tell=tell, **chosen,
                )  # fmt: skip
    if not dry_run and not to_send:
        typer.echo("nothing is left to send", err=True)
        done = replace(done, is_dry=False)
    write_rows(sys.stdout, form, fitting(sys.stdout, form, LETTERS), rows_of(done.letters))
    write_summary(sys.stderr, Form.TABLE if form is Form.TABLE else Form.JSONL, "redrive", done)
    if done.failed or done.held_back or done.canary.is_bad:
        raise typer.Exit(5)


@app.command()
@unfolded
def report(
    topics: TopicsArgument,
    *,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", "-g", metavar="GROUP", help="For one that writes no trace; again for more."),
    ] = None,
    begin: BeginOption = "",
    end: EndOption = "",
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with charts there.")] = None,
    trace_topic: Annotated[
        str, typer.Option(metavar="TOPIC", help="Where consumers write their trace.")
    ] = "RMQ_SYS_TRACE_TOPIC",
    cluster: ClusterOptions,
    run_in: SparkOptions,
) -> None:
    """What happened to messages: rates, latencies, lag, dead letters.

    What consumers did is known where they write a trace.
    """
    from pyromq.pipeline.jobs import page
    from pyromq.pipeline.jobs import report as job

    page_file(html)
    first, behind = times_of(begin, end)
    check_topics(cluster, *topics)
    with started(run_in) as spark, bar("reporting") as tell:
        found = job(
            spark, topics, nameserver=cluster.nameserver, groups=group or (), begin=first, end=behind,
            trace_topic=trace_topic, options=cluster.source_options, tell=tell,
        )  # fmt: skip
    if html is not None:
        html.write_text(page(found), encoding="utf-8")
        typer.echo(f"page: {html}", err=True)
    form = form_for(run_in.output, sys.stdout)
    if not found.throughput:
        typer.echo(f"no messages in {', '.join(topics)} in that time", err=True)
    if form in (Form.JSON, Form.JSONL):
        write_json(sys.stdout, found, indent=2 if form is Form.JSON else 0)
    else:
        write_report(sys.stdout, form, found)


@app.command()
@unfolded
def dedupe(
    topics: TopicsArgument,
    *,
    key: Annotated[str, typer.Option(metavar="SQL", help="Expression over the columns that gives the key.")] = "keys",
    within: Annotated[str, typer.Option(metavar="SPAN", help="How long a key is remembered.")] = "1 hour",
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="That gets Parquet.")] = "",
    to_topic: Annotated[str, typer.Option("--to-topic", metavar="TOPIC", help="Or a topic.")] = "",
    checkpoint: CheckpointOption = "",
    group: GroupOption = "pyromq-dedupe",
    begin: BeginOption = "",
    filters: FilterOptions,
    follow: FollowOption = 0,
    cluster: ClusterOptions,
    run_in: SparkOptions,
) -> None:
    """A topic without repetitions, into Parquet or another topic."""
    from pyromq.pipeline.jobs import dedupe as job

    one_target(to, to_topic, checkpoint, topics)
    chosen = selection(topics, filters, cluster, time_of(begin))
    check_topics(cluster, *topics, *filter(None, [to_topic]), group=group)
    with started(run_in) as spark, bar("without repetitions") as tell:
        done = job(
            spark, chosen, key=key, within=within, path=to, to_topic=to_topic, checkpoint=checkpoint, group=group,
            follow_s=follow or None, tell=tell,
        )  # fmt: skip
    write_summary(sys.stdout, run_in.output, "dedupe", done)


@app.command()
@unfolded
def store(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Store folder: the one with commitlog in it.")],
    *,
    query: Annotated[
        str,
        typer.Option("--query", "-q", metavar="SQL", help="Over the view messages; without one, counts by topic."),
    ] = "",
    topic: Annotated[list[str] | None, typer.Option(metavar="TOPIC", help="Only this topic; again for more.")] = None,
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="Write Parquet there instead of showing rows.")] = "",
    count: Annotated[int, typer.Option("--max", min=1, metavar="NUMBER", help="Show at most so many rows.")] = 100,
    run_in: SparkOptions,
) -> None:
    """Query a store folder without a broker, ours or RocketMQ's."""
    from pyromq.pipeline import read_store
    from pyromq.pipeline.jobs.common.queries import failures_in_words
    from pyromq.pipeline.jobs.common.selection import absolute

    if not run_in.is_elsewhere and not (folder / "commitlog").is_dir():
        raise StoreNotFoundError(f"there is no commitlog in {folder}")
    with started(run_in) as spark, failures_in_words():
        needed = "" if query or to else "topic string, store_time timestamp"
        read_store(spark, folder, topics=topic or (), columns=needed).createOrReplaceTempView("messages")
        counts = "SELECT topic, count(*) AS messages, min(store_time) AS first, max(store_time) AS last FROM messages"
        found = spark.sql(query or ("SELECT * FROM messages" if to else f"{counts} GROUP BY topic ORDER BY topic"))
        if to:
            with bar(f"writing {to}"):
                found.write.mode("errorifexists").parquet(absolute(to))
            return
        with bar("reading the log"):
            rows = rows_shown(found, count)
    write_found(sys.stdout, form_for(run_in.output, sys.stdout), found.columns, rows)


@app.command()
@unfolded
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Pipeline in TOML or YAML.")],
    *,
    check: Annotated[bool, typer.Option("--check", help="Only look whether the file is right.")] = False,
    run_in: SparkOptions,
) -> None:
    """Run a pipeline that a file describes.

    A source, steps in SQL or Python, sinks; the mistakes in a file are told with their places.
    """
    from pyromq.pipeline.core.option_texts import option_text
    from pyromq.pipeline.jobs import run_file
    from pyromq.pipeline.jobs.running.pipeline_file import read_pipeline_file
    from pyromq.pipeline.jobs.running.run import require_functions

    pipeline = read_pipeline_file(file)
    require_functions(pipeline, file.absolute().parent)
    if check:
        typer.echo(f"{file} is right", err=True)
        return
    if not run_in.is_elsewhere:
        check_source(pipeline.source_options(pipeline.group_of(0)), is_stream=pipeline.mode != "batch")
    settings = {name: option_text(value) for name, value in pipeline.spark.items()}
    with started(run_in, settings) as spark, bar(pipeline.name) as tell:
        done = run_file(spark, file, tell=tell)
    write_summary(sys.stdout, run_in.output, "run", done)
