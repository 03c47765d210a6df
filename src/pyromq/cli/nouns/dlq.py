"""``pyromq dlq``: dead letters, the messages a group gave up on, by error or one by one, and sending them again."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import click

from pyromq.cli.connection import CLUSTER, ClusterFlags, GroupArgument
from pyromq.cli.declared import Argument, Commands, Option
from pyromq.cli.exit_codes import ExitCode
from pyromq.cli.nouns.job import JobFlags, run_job
from pyromq.cli.output.prompts import counting, progress
from pyromq.cli.output.resent_rows import RESENT_COLUMNS, resent_row
from pyromq.cli.output.tables import (
    Column,
    Form,
    write_block,
    write_fields,
)
from pyromq.cli.output.times import show_moment, show_time
from pyromq.cli.output.watching import watched
from pyromq.wording import counted

if TYPE_CHECKING:
    from pyromq.aio import Admin
    from pyromq.operate.dead_letters import LetterCounts
    from pyromq.operate.error_groups import ErrorGroups
    from pyromq.operate.letter_filter import LetterChoice, LetterRow
    from pyromq.operate.resend.outcomes import ItemOutcome

app = Commands(help="Dead letters: ls, show, redrive.")

_MESSAGES, _SCANNED = 100, 10_000

_COLUMNS = (
    Column("dead_ms", "dead since", show=show_time, whole=True),
    Column("topic", "topic"),
    Column("message_id", "id"),
    Column("keys", "keys", optional=True),
    Column("tags", "tags", optional=True),
    Column("attempts", "deliveries", right=True),
    Column(
        "is_redriven",
        "redriven",
        show=lambda is_redriven: "yes" if is_redriven else "",
        styles={"yes": "green"},
        optional=True,
    ),
    Column("error_class", "error", optional=True),
    Column("text", "why", optional=True),
)
_LETTER = (
    Column("group", "group"),
    Column("topic", "topic"),
    Column("message_id", "id"),
    Column("offset_message_id", "letter"),
    Column("dead_ms", "dead since", show=show_time, roomy=show_moment),
    Column("born_ms", "sent", show=show_time, roomy=show_moment),
    Column("attempts", "deliveries"),
    Column("keys", "keys"),
    Column("tags", "tags"),
    Column("body_bytes", "body bytes"),
    Column("is_redriven", "redriven", show=lambda is_redriven: "yes" if is_redriven else "no"),
    Column("error_class", "error"),
    Column("text", "why"),
    Column("stack", "hash"),
    Column("version", "version"),
)
_ERRORS = (
    Column("error_class", "error", show=lambda name: name or "(not told)"),
    Column("stack", "hash", whole=True),
    Column("count", "letters", right=True),
    Column("redriven", "redriven", right=True, optional=True, show=lambda count: str(count or "")),
    Column("first_ms", "first seen", show=show_time, whole=True),
    Column("last_ms", "last seen", show=show_time, whole=True),
    Column("topics", "topics"),
    Column("versions", "versions", optional=True),
    Column("hosts", "hosts", optional=True, only=Form.CSV),
    Column("text", "why, the newest", optional=True),
)


@app.command("ls")
@watched
def list_letters(
    group: GroupArgument,
    messages: Annotated[bool, Option("--messages", "-m", help="List the letters themselves, oldest first.")] = False,
    retries: Annotated[
        bool, Option("--retries", help="Instead of dead letters, messages that failed and come again.")
    ] = False,
    count: Annotated[
        int | None,
        Option("--max", min=1, help="Read at most this many, the newest ones; 10 000 by default, 100 with --messages."),
    ] = None,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Show the dead letters of a group by error, the most frequent first."""

    if messages and retries:
        raise click.UsageError("--retries are shown by error: leave --messages out")
    if messages:
        _list_messages(group, count or _MESSAGES, cluster)
        return
    what = "messages that come again" if retries else "dead letters"
    with progress(f"reading {what} of {group}"):
        found, counts = cluster.ask(lambda admin: _by_error(admin, group, retries, count or _SCANNED))
    cluster.write_structs(_ERRORS, found.errors)
    if not found.messages:
        click.echo(f"group {group} has no {what}", err=True)
    if found.is_cut:
        ranges = ", ".join(
            f"{each.topic} {each.broker}:{each.queue} {each.begin}–{each.end}" for each in found.scanned if each.is_cut
        )
        click.echo(f"only the newest were read, older ones are there (--max): {ranges}", err=True)
    _report_counts(counts)


def _report_counts(counts: LetterCounts) -> None:
    if counts.total:
        click.echo(f"{counted(counts.total, 'dead letter')}, {counts.waiting} waiting to be redriven", err=True)


def _list_messages(group: str, count: int, cluster: ClusterFlags) -> None:
    with progress(f"reading dead letters of {group}"):
        found, counts = cluster.ask(lambda admin: _letters(admin, group, count))
    cluster.write_structs(_COLUMNS, found)
    if not found:
        click.echo(f"group {group} has no dead letters", err=True)
    _report_counts(counts)


async def _letters(admin: Admin, group: str, count: int) -> tuple[list[LetterRow], LetterCounts]:
    from pyromq.operate.letter_filter import LetterRow

    found = await admin.dead_letters.list(group, count_max=count)
    return [LetterRow.of(letter) for letter in found], await admin.dead_letters.count(group)


async def _by_error(admin: Admin, group: str, retries: bool, count: int) -> tuple[ErrorGroups, LetterCounts]:
    from pyromq.operate.dead_letters import LetterCounts

    if retries:
        return await admin.dead_letters.retries_by_error(group, count_max=count), LetterCounts()
    return await admin.dead_letters.by_error(group, count_max=count), await admin.dead_letters.count(group)


@app.command()
def show(
    group: GroupArgument,
    letter: Annotated[
        str, Argument(metavar="LETTER", help="Offset id of the letter; dlq ls --messages -o json has it.")
    ],
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Show one dead letter: what it was, why it failed, and the traceback where its consumer keeps one."""
    import msgspec

    from pyromq.operate.letter_filter import LetterRow

    row = LetterRow.of(cluster.ask(lambda admin: admin.dead_letters.get(group, letter)))
    form = cluster.form
    write_fields(sys.stdout, form, _LETTER, msgspec.to_builtins(row))
    if row.traceback and form is Form.TABLE:
        write_block(sys.stdout, "traceback", row.traceback)


@dataclass(frozen=True, kw_only=True)
class WhichLetters:
    """Options that choose dead letters; ``LetterFilter`` has their meanings."""

    letter: Annotated[
        list[str] | None,
        Option(metavar="ID", help="Only this letter, by its offset id (dlq ls --messages -o json); may be repeated."),
    ] = None
    key: Annotated[list[str] | None, Option(help="Only letters with this key; may be repeated.")] = None
    tag: Annotated[list[str] | None, Option(help="Only letters with this tag; may be repeated.")] = None
    topic: Annotated[list[str] | None, Option(help="Only letters first sent to this topic; may be repeated.")] = None
    error: Annotated[
        list[str] | None,
        Option(metavar="CLASS|HASH", help="Only letters with this error: class, hash or text; may be repeated."),
    ] = None
    search: Annotated[str, Option(help="Only letters with this text in id, keys, tag or error.")] = ""

    def keywords(self) -> LetterChoice:
        several = {f"{name}s": getattr(self, name) or () for name in ("letter", "key", "tag", "topic", "error")}
        return {**several, "search": self.search}  # type: ignore[typeddict-item]


@app.command()
def redrive(
    group: GroupArgument,
    *,
    which: WhichLetters,
    how: JobFlags,
    count: Annotated[int, Option("--max", min=0, help="Send at most this many; 0: no limit.")] = 0,
    only_group: Annotated[
        bool, Option("--only-group", help="Send to this group alone, not to every group of the topic.")
    ] = False,
    cluster: ClusterFlags = CLUSTER,
) -> None:
    """Send dead letters to the topic they came from, each message once, however many letters it left."""
    if how.data is not None:
        if count:
            raise click.UsageError("a job redrives all that is chosen: leave --max out, or --data")
        _redrive_job(cluster, group, which, how, only_group=only_group)
        return

    async def work(admin: Admin) -> list[ItemOutcome]:
        found, options = [], which.keywords()
        redriving = admin.dead_letters.redriving(
            group, dry_run=how.dry_run, count_max=count, only_group=only_group, rate=how.rate, **options
        )
        with counting("redriving", total=count or None) as tell:
            async for each in redriving:
                found.append(each)
                tell(len(found))
        return found

    found = cluster.ask(work)
    cluster.write_rows(RESENT_COLUMNS, map(resent_row, found))
    if not found:
        chosen = " that match" if which != WhichLetters() else ""
        click.echo(f"group {group} has no dead letters{chosen} left to redrive", err=True)
    if any(each.error for each in found):
        raise click.exceptions.Exit(ExitCode.PARTIAL)


def _redrive_job(cluster: ClusterFlags, group: str, which: WhichLetters, how: JobFlags, *, only_group: bool) -> None:
    from pyromq.operate.jobs.specs import Redrive
    from pyromq.operate.letter_filter import LetterFilter

    spec = Redrive.chosen(group, LetterFilter.of(which.keywords()), only_group=only_group)
    run_job(cluster, how.data, lambda jobs: jobs.start(how.new(spec), by="command line"))
