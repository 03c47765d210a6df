"""``pyromq pipeline``: jobs on Spark. Each shows its progress on a terminal and ends with a summary."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import click

from pyromq.cli.connection import GroupArgument
from pyromq.cli.declared import Argument, Commands, Option
from pyromq.cli.exit_codes import ExitCode
from pyromq.cli.option_records import unfolded
from pyromq.cli.output.prompts import confirm
from pyromq.cli.output.resent_rows import RESENT_COLUMNS, resent_row
from pyromq.cli.output.tables import Form, FormOption, form_for, write_json, write_rows
from pyromq.cli.pipeline.checks import check_source, check_topics, has_dead_letters
from pyromq.cli.pipeline.engine import LETTERS_MAX, MESSAGES_MAX, on_engine
from pyromq.cli.pipeline.options import (
    ArchiveFlags,
    BeginOption,
    ClusterOptions,
    DedupeTarget,
    EndOption,
    EngineOptions,
    FilterOptions,
    FollowOption,
    KeyOptions,
    LetterOptions,
    MirrorFlags,
    ParquetCompression,
    RedriveFlags,
    ReplayFlags,
    SparkOptions,
    StretchOptions,
    TableFlags,
    TableQuestions,
    TopicsArgument,
    one_of,
    one_target,
    page_file,
    pairs,
    place_of,
    selection,
    time_of,
    times_of,
)
from pyromq.cli.pipeline.session import bar, started
from pyromq.cli.pipeline.tables import (
    CASE_COLUMNS,
    GRAPH_COLUMNS,
    SAMPLES,
    TABLE_PLACES,
    TABLE_VERSIONS,
    fitting,
    rows_of,
    rows_shown,
    write_found,
    write_report,
    write_summary,
)
from pyromq.errors import StoreNotFoundError

_LETTERS_SHOWN = 10
app = Commands(help="Jobs on Spark: archive, replay, redrive, report, dedupe, store, run; table, mirror without.")


@app.command()
@unfolded
def archive(
    topics: TopicsArgument,
    *,
    to: Annotated[str, Option("--to", metavar="DIR", help="Folder of the archive (Iceberg: name of the table).")],
    writing: ArchiveFlags,
    begin: BeginOption = "",
    filters: FilterOptions,
    follow: FollowOption = 0,
    cluster: ClusterOptions,
    run_in: SparkOptions,
) -> None:
    """Write topics to Parquet, each message once.

    Files are laid out by topic, date and hour. A run continues where the last one ended, also if that was interrupted.
    """
    from pyromq.pipeline.jobs import ArchiveFormat, ArchiveWriterKind, compact_archive
    from pyromq.pipeline.jobs import archive as job

    kind, table = one_of(ArchiveWriterKind, writing.writer, "--writer"), one_of(ArchiveFormat, writing.form, "--format")
    one_of(ParquetCompression, writing.compression, "--compression")
    by_tasks = kind is ArchiveWriterKind.TASK and table is ArchiveFormat.PARQUET
    if filters.where and by_tasks:
        raise click.BadParameter("--where needs --writer spark: tasks write what brokers send")
    if writing.compact and not by_tasks:
        raise click.BadParameter("--compact is for --writer task: Spark and table formats manage their own files")
    chosen = selection(topics, filters, cluster, time_of(begin))
    check_topics(cluster, *topics, group=writing.group)
    with started(run_in) as spark, bar("archiving") as tell:
        done = job(
            spark, chosen, to, group=writing.group, checkpoint=writing.checkpoint, writer=kind, form=table,
            compression=writing.compression, follow_s=follow or None, tell=tell,
        )  # fmt: skip
    if writing.compact:
        with bar("merging small files") as tell:
            merged = compact_archive(to, compression=writing.compression, tell=tell)
        click.echo(f"{merged.files_before} files before, {merged.files_after} after", err=True)
    write_summary(sys.stdout, run_in.output, "archive", done)


@app.command()
@unfolded
def replay(
    topics: TopicsArgument,
    *,
    to: Annotated[str, Option("--to", metavar="TOPIC", help="Topic to send to.")],
    stretch: StretchOptions,
    filters: FilterOptions,
    sending: ReplayFlags,
    cluster: ClusterOptions,
    run_in: EngineOptions,
) -> None:
    """Send a stretch of topics to a topic again.

    What would be sent is counted and shown first; then it is sent in the order in which it was stored, at a set rate.
    """
    from pyromq.pipeline.jobs import replay as job
    from pyromq.pipeline.jobs.common.plain_rows import count_of

    first, behind = times_of(stretch.begin, stretch.end)
    chosen = selection(
        topics, filters, cluster,
        place_of(first, stretch.begin_offsets, "--begin"), place_of(behind, stretch.end_offsets, "--end"),
    )  # fmt: skip
    check_topics(cluster, *topics, to)
    form = form_for(run_in.output, sys.stdout)
    chosen = chosen.frozen()  # what is sent is what was shown

    def work(spark: Any) -> None:
        with bar("counting"):
            plan = job(spark, chosen, to, count_max=sending.count, name=sending.name)
        if form is Form.TABLE or sending.dry_run:
            write_rows(sys.stdout if form is Form.TABLE else sys.stderr, Form.TABLE, SAMPLES, rows_of(plan.samples))
        if sending.dry_run or not plan.found:
            write_summary(sys.stdout, run_in.output, "replay", plan)
            return
        confirm(f"Send {plan.found} messages to topic {to}?", sending.yes)
        with bar("replaying") as tell:
            done = job(
                spark, chosen, to, rate=sending.rate or None, name=sending.name, dry_run=False,
                count_max=sending.count, tell=tell,
            )  # fmt: skip
        write_summary(sys.stdout, run_in.output, "replay", done)
        if done.failed:
            raise click.exceptions.Exit(ExitCode.PARTIAL)

    def is_small() -> bool:
        return not (filters.where or cluster.reads_folders) and count_of(chosen) <= LETTERS_MAX

    on_engine(run_in, started, is_small, work)


@app.command()
@unfolded
def redrive(
    group: GroupArgument,
    *,
    which: LetterOptions,
    sending: RedriveFlags,
    cluster: ClusterOptions,
    run_in: EngineOptions,
) -> None:
    """Send dead letters to the topics they came from.

    They are chosen by SQL, may be patched, are sent at a set rate, a few first, and are reported one by one.
    """
    from msgspec.structs import replace

    from pyromq.model.names import dead_letter_topic
    from pyromq.pipeline.jobs import Redriving
    from pyromq.pipeline.jobs import redrive as job
    from pyromq.pipeline.jobs.common.patching import find_function
    from pyromq.pipeline.jobs.common.plain_rows import count_of

    form = form_for(run_in.output, sys.stdout)
    function = find_function(sending.patch) if sending.patch else None
    died_from, died_before = times_of(which.begin, which.end)
    letters = selection([dead_letter_topic(group)], FilterOptions(), cluster, died_from, died_before)
    chosen: dict[str, Any] = {
        "nameserver": cluster.nameserver, "where": which.where, "errors": which.error or (), "begin": died_from,
        "patch": function, "only_group": sending.only_group, "options": cluster.source_options,
    }  # fmt: skip
    if not has_dead_letters(cluster, group):
        click.echo(f"group {group} has no dead letters", err=True)
        return
    letters = letters.frozen()  # what is sent is what was shown
    chosen["end"] = letters.end

    def work(spark: Any) -> Redriving:
        with bar("reading dead letters"):
            done = job(spark, group, **chosen)
        to_send = sum(each.status == "would send" for each in done.letters)
        if sending.dry_run:
            return done
        if not to_send:
            click.echo("no dead letter is left to send", err=True)
            return replace(done, is_dry=False)
        if form is Form.TABLE and not sending.yes:
            first = done.letters[:_LETTERS_SHOWN]
            write_rows(sys.stderr, form, fitting(sys.stderr, form, RESENT_COLUMNS), map(resent_row, first))
        confirm(f"Send {to_send} dead letters?", sending.yes)
        with bar("redriving") as tell:
            return job(
                spark, group, dry_run=False, canary=sending.canary, canary_wait_s=sending.canary_wait,
                rate=sending.rate or None, tell=tell, **chosen,
            )  # fmt: skip

    done: Redriving = on_engine(run_in, started, lambda: not which.where and count_of(letters) <= LETTERS_MAX, work)
    write_rows(sys.stdout, form, fitting(sys.stdout, form, RESENT_COLUMNS), map(resent_row, done.letters))
    write_summary(sys.stderr, Form.TABLE if form is Form.TABLE else Form.JSONL, "redrive", done)
    if done.failed or done.held_back or done.canary.is_bad:
        raise click.exceptions.Exit(ExitCode.PARTIAL)


@app.command()
@unfolded
def report(
    topics: TopicsArgument,
    *,
    group: Annotated[
        list[str] | None,
        Option("--group", "-g", metavar="GROUP", help="A group that writes no trace; may be repeated."),
    ] = None,
    begin: BeginOption = "",
    end: EndOption = "",
    html: Annotated[Path | None, Option(metavar="FILE", help="Write a page with charts to this file.")] = None,
    trace_topic: Annotated[
        str, Option(metavar="TOPIC", help="Topic that consumers write their trace to.")
    ] = "RMQ_SYS_TRACE_TOPIC",
    cluster: ClusterOptions,
    run_in: EngineOptions,
) -> None:
    """Report what happened to messages: rates, latencies, lag, dead letters.

    What consumers did is known only where they write a trace.
    """
    from pyromq.pipeline.jobs import Report, page
    from pyromq.pipeline.jobs import report as job
    from pyromq.pipeline.jobs.reporting.job import size_of_report

    page_file(html)
    first, behind = times_of(begin, end)
    check_topics(cluster, *topics)
    chosen: dict[str, Any] = {
        "nameserver": cluster.nameserver, "groups": group or (), "begin": first, "end": behind,
        "trace_topic": trace_topic, "options": cluster.source_options,
    }  # fmt: skip

    def work(spark: Any) -> Report:
        with bar("reporting") as tell:
            return job(spark, topics, tell=tell, **chosen)

    def is_small() -> bool:
        return not cluster.reads_folders and size_of_report(topics, **chosen) <= MESSAGES_MAX

    found: Report = on_engine(run_in, started, is_small, work)
    if html is not None:
        html.write_text(page(found), encoding="utf-8")
        click.echo(f"page: {html}", err=True)
    form = form_for(run_in.output, sys.stdout)
    if not found.throughput:
        click.echo(f"no messages in {', '.join(topics)} in that time", err=True)
    if form in (Form.JSON, Form.JSONL):
        write_json(sys.stdout, found, indent=2 if form is Form.JSON else 0)
    else:
        write_report(sys.stdout, form, found)


@app.command()
@unfolded
def dedupe(
    topics: TopicsArgument,
    *,
    keys: KeyOptions,
    target: DedupeTarget,
    begin: BeginOption = "",
    filters: FilterOptions,
    follow: FollowOption = 0,
    cluster: ClusterOptions,
    run_in: SparkOptions,
) -> None:
    """Write a topic without repetitions, to Parquet or to another topic."""
    from pyromq.pipeline.jobs import dedupe as job

    one_target(target, topics)
    chosen = selection(topics, filters, cluster, time_of(begin))
    check_topics(cluster, *topics, *filter(None, [target.to_topic]), group=target.group)
    with started(run_in) as spark, bar("removing repetitions") as tell:
        done = job(
            spark, chosen, key=keys.key, within=keys.within, path=target.to, to_topic=target.to_topic,
            checkpoint=target.checkpoint, group=target.group, follow_s=follow or None, tell=tell,
        )  # fmt: skip
    write_summary(sys.stdout, run_in.output, "dedupe", done)


@app.command()
@unfolded
def store(
    folder: Annotated[Path, Argument(metavar="DIR", help="Store folder: the one with commitlog in it.")],
    *,
    query: Annotated[
        str,
        Option("--query", "-q", metavar="SQL", help="Query over the view messages; by default, counts by topic."),
    ] = "",
    topic: Annotated[list[str] | None, Option(metavar="TOPIC", help="Only this topic; may be repeated.")] = None,
    to: Annotated[
        str, Option("--to", metavar="DIR", help="Write Parquet to this folder instead of showing rows.")
    ] = "",
    count: Annotated[int, Option("--max", min=1, metavar="NUMBER", help="Show at most this many rows.")] = 100,
    run_in: SparkOptions,
) -> None:
    """Query a store folder of PyroMQ or Apache RocketMQ without a broker."""
    from pyromq.pipeline import read_store
    from pyromq.pipeline.jobs.common.queries import failures_in_words
    from pyromq.pipeline.jobs.common.selection import absolute
    from pyromq.pipeline.jobs.common.written import write_parquet

    if not run_in.is_elsewhere and not (folder / "commitlog").is_dir():
        raise StoreNotFoundError(f"there is no commitlog in {folder}")
    with started(run_in) as spark, failures_in_words():
        needed = "" if query or to else "topic string, store_time timestamp"
        read_store(spark, folder, topics=topic or (), columns=needed).createOrReplaceTempView("messages")
        counts = "SELECT topic, count(*) AS messages, min(store_time) AS first, max(store_time) AS last FROM messages"
        found = spark.sql(query or ("SELECT * FROM messages" if to else f"{counts} GROUP BY topic ORDER BY topic"))
        if to:
            with bar(f"writing {to}"):
                done = write_parquet(found, absolute(to))
            write_summary(sys.stdout, run_in.output, "store", done)
            return
        with bar("reading the log"):
            rows = list(rows_shown(found, count))
    write_found(sys.stdout, form_for(run_in.output, sys.stdout), found.columns, rows)


@app.command()
@unfolded
def run(
    file: Annotated[Path, Argument(metavar="FILE", help="Pipeline in TOML or YAML.")],
    *,
    check: Annotated[bool, Option("--check", help="Only check the file.")] = False,
    run_in: SparkOptions,
) -> None:
    """Run a pipeline that a file describes: a source, steps in SQL or Python, sinks.

    All mistakes in the file are reported at once, with their places.
    """
    from pyromq.pipeline.core.option_texts import option_text
    from pyromq.pipeline.jobs import run_file
    from pyromq.pipeline.jobs.running.pipeline_file import read_pipeline_file

    pipeline = read_pipeline_file(file)
    if check:
        click.echo(f"{file} is valid", err=True)
        return
    if not run_in.is_elsewhere:
        check_source(pipeline.source_options(pipeline.group_of(0)), is_stream=pipeline.mode != "batch")
    settings = {name: option_text(value) for name, value in pipeline.spark.items()}
    with started(run_in, settings) as spark, bar(pipeline.name) as tell:
        done = run_file(spark, file, tell=tell)
    write_summary(sys.stdout, run_in.output, "run", done)


@app.command(name="test")
@unfolded
def check_cases(
    file: Annotated[Path, Argument(metavar="FILE", help="Pipeline in TOML or YAML, with [[test]] in it.")],
    *,
    run_in: SparkOptions,
) -> None:
    """Run the tests of a pipeline file: rows in, expected rows out.

    Its steps are run over the rows of each test; no topic is read, nothing is written.
    """
    from pyromq.pipeline.core.option_texts import option_text
    from pyromq.pipeline.jobs import check_file
    from pyromq.pipeline.jobs.running.pipeline_file import read_pipeline_file

    pipeline = read_pipeline_file(file)
    if not pipeline.test:
        raise click.BadParameter(f"{file} has no [[test]]")
    settings = {name: option_text(value) for name, value in pipeline.spark.items()}
    with started(run_in, settings) as spark, bar(pipeline.name):
        outcomes = check_file(spark, file)
    form = form_for(run_in.output, sys.stdout)
    write_rows(
        sys.stdout,
        form,
        CASE_COLUMNS,
        [{**row, "is_met": not (row["missing"] or row["unexpected"])} for row in rows_of(outcomes)],
    )
    if not all(each.is_met for each in outcomes):
        raise click.exceptions.Exit(ExitCode.PARTIAL)


@app.command()
@unfolded
def graph(
    file: Annotated[Path, Argument(metavar="FILE", help="Pipeline in TOML or YAML.")],
    *,
    mermaid: Annotated[bool, Option("--mermaid", help="Write a flowchart for Mermaid.")] = False,
    output: FormOption = None,
) -> None:
    """Show where the rows of a pipeline file come from and go to; without Spark."""
    from pyromq.pipeline.jobs.running import graph as graphs
    from pyromq.pipeline.jobs.running.pipeline_file import read_pipeline_file

    pipeline = read_pipeline_file(file)
    if mermaid:
        click.echo(graphs.mermaid(pipeline), nl=False)
        return
    edges = [{"from": each.from_, "to": each.to, "how": each.how} for each in graphs.edges_of(pipeline)]
    write_rows(sys.stdout, form_for(output, sys.stdout), GRAPH_COLUMNS, edges)


@app.command()
@unfolded
def table(
    topics: TopicsArgument,
    *,
    to: Annotated[Path, Option("--to", metavar="DIR", help="Folder of the table.")],
    filling: TableFlags,
    look: TableQuestions,
    cluster: ClusterOptions,
    output: FormOption = None,
) -> None:
    """Keep topics as a Delta or Iceberg table, each message once, without Spark.

    A run goes on where the table is, however the run before it ended; the offsets stand in the commits of the table.
    """
    from pyromq.pipeline import fill_table, where_is
    from pyromq.pipeline.tables.filling import versions_shown

    form = form_for(output, sys.stdout)
    if look.where_is:
        found = [row for row in where_is(to, look.where_is) if row["topic"] in topics]
        write_found(sys.stdout, form, TABLE_PLACES, found)
        if not found:
            click.echo(f"the table has no message {look.where_is} of {', '.join(topics)}", err=True)
            raise click.exceptions.Exit(ExitCode.NOT_FOUND)
        return
    if look.history:
        write_found(sys.stdout, form, TABLE_VERSIONS, versions_shown(to))
        return
    check_topics(cluster, *topics)
    with bar("filling") as tell:
        done = fill_table(
            ",".join(topics), to, cluster.nameserver, options=cluster.source_options, follow_s=filling.follow or None,
            form=filling.form, compact=filling.compact, expire_days=filling.expire or None,
            commit_bytes=filling.commit_mb << 20, progress=tell,
        )  # fmt: skip
    write_summary(sys.stdout, output, "table", done)


@app.command()
@unfolded
def mirror(
    topics: TopicsArgument,
    *,
    sending: MirrorFlags,
    cluster: ClusterOptions,
    output: FormOption = None,
) -> None:
    """Keep topics in another cluster, with the progress of groups; without Spark.

    A run goes on where the copies end, however the run before it ended. Groups can go on over there where they stand
    here.
    """
    from pyromq.pipeline import mirror as job
    from pyromq.pipeline.mirroring.job import round_text

    check_topics(cluster, *topics)
    with bar("mirroring") as tell:
        done = job(
            topics, cluster.nameserver, sending.to, groups=sending.group or (), follow_s=sending.follow or None,
            name=sending.name, options=cluster.source_options, to_options=pairs(sending.to_option), progress=tell,
            on_round=lambda each: tell(each.copied, each.copied + each.lag, round_text(each)),
        )  # fmt: skip
    write_summary(sys.stdout, output, "mirror", done)
