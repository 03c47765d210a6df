"""``pyromq job``: bulk work that keeps an outcome for every item; the console shows the same jobs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from pyromq.cli.connection import CLUSTER, ClusterFlags
from pyromq.cli.declared import Argument, Commands, Option
from pyromq.cli.exit_codes import ExitCode
from pyromq.cli.output.prompts import DryRunOption, RateOption, counting
from pyromq.cli.output.tables import Column, FormOption, form_for, write_fields, write_rows
from pyromq.cli.output.times import show_moment, show_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyromq.aio import Admin
    from pyromq.cli.output.tables import Form
    from pyromq.operate.jobs.book import Jobs
    from pyromq.operate.jobs.outcomes import ItemResult
    from pyromq.operate.jobs.record import JobRecord
    from pyromq.operate.jobs.specs import JobSpec, NewJob

app = Commands(help="Bulk jobs: ls, show, resume, cancel, undo.")
_DATA = Option("--data", envvar="PYROMQ_DATA", metavar="DIR", help="Folder that keeps jobs: --data of the console.")
DataOption = Annotated[Path, _DATA]
KeepOption = Annotated[
    Path | None,
    Option("--data", metavar="DIR", help="Run as a job that this folder keeps: --data of the console."),
]


@dataclass(frozen=True, kw_only=True)
class JobFlags:
    """Options of commands that send messages again: how fast, for show, and where it is kept."""

    dry_run: DryRunOption = False
    rate: RateOption = 0
    data: KeepOption = None

    def new(self, spec: JobSpec) -> NewJob:
        """Return the job that does it."""
        from pyromq.operate.jobs.specs import NewJob, Pace

        return NewJob(spec=spec, pace=Pace(rate=self.rate), dry_run=self.dry_run)


IdArgument = Annotated[str, Argument(metavar="ID", help="The id of a job; see job ls.")]

_STYLES = {"running": "cyan", "finished": "green", "failed": "bold red", "interrupted": "bold red"}
_COUNTS = tuple(
    Column(name, name.replace("_", " "), right=True)
    for name in ("confirmed", "unchanged", "refused", "unknown", "not_attempted")
)
_COLUMNS = (
    Column("created_ms", "started", show=show_time, whole=True),
    Column("id", "id", whole=True),
    Column("what", "what"),
    Column("state", "state", styles=_STYLES, whole=True),
    *_COUNTS,
    Column("by", "by", optional=True),
)
_FIELDS = (
    Column("id", "id"),
    Column("what", "what"),
    Column("state", "state", styles=_STYLES),
    Column("note", "note"),
    *_COUNTS,
    Column("by", "by"),
    Column("continues", "goes on with"),
    Column("created_ms", "started", show=show_time, roomy=show_moment),
    Column("ended_ms", "ended", show=lambda moment_ms: show_time(moment_ms) if moment_ms else ""),
)
_RESULTS = (
    Column("item", "item"),
    Column("outcome", "outcome", styles={"confirmed": "green", "unknown": "bold red"}, whole=True),
    Column("target", "target", optional=True),
    Column("text", "what happened"),
)


@app.command("ls")
def list_jobs(data: DataOption, output: FormOption = None) -> None:
    """List jobs, newest first, with the counts of each outcome."""
    found = _with_book(data, lambda jobs: jobs.all())
    write_rows(sys.stdout, form_for(output, sys.stdout), _COLUMNS, map(job_row, found))
    if not found:
        click.echo(f"no job is kept in {data}", err=True)


@app.command()
def show(
    job_id: IdArgument,
    data: DataOption,
    results: Annotated[bool, Option("--results", "-r", help="Show what became of every item instead.")] = False,
    output: FormOption = None,
) -> None:
    """Show one job, or what became of its items."""
    if results:
        _write_results(_with_book(data, lambda jobs: list(jobs.results(job_id))), output)
        return
    record = _with_book(data, lambda jobs: jobs.get(job_id))
    write_fields(sys.stdout, form_for(output, sys.stdout), _FIELDS, job_row(record))


@app.command()
def resume(job_id: IdArgument, data: DataOption, cluster: ClusterFlags = CLUSTER) -> None:
    """Let a paused job go on; one that is over does what it has left, without repeating what it did."""
    record = _with_book(data, lambda jobs: jobs.get(job_id))
    if not record.is_active:
        run_job(cluster, data, lambda jobs: jobs.go_on(job_id, by="command line"))
        return
    what = next((each for each in ("resume", "go") if each in record.allowed()), "resume")
    _with_book(data, lambda jobs: jobs.ask(job_id, what))
    click.echo(f"job {job_id} is asked to go on", err=True)


@app.command()
def cancel(job_id: IdArgument, data: DataOption) -> None:
    """Cancel a job, wherever it runs; what is left is listed as not attempted."""
    _with_book(data, lambda jobs: jobs.ask(job_id, "cancel"))
    click.echo(f"job {job_id} is asked to end", err=True)


@app.command()
def undo(job_id: IdArgument, data: DataOption, cluster: ClusterFlags = CLUSTER) -> None:
    """Undo a reset of offsets: a new job moves each queue back to where it stood; no other job can be undone."""
    run_job(cluster, data, lambda jobs: jobs.undo(job_id, by="command line"))


def run_job(cluster: ClusterFlags, data: Path | None, start: Callable[[Jobs], JobRecord]) -> None:
    """Run a job in this process, and show what became of every item; exit code 5 where something is in doubt.

    With ``data`` it is kept there: other processes see and steer it, and it can go on after a failure.
    """

    async def work(admin: Admin) -> tuple[JobRecord, list[ItemResult]]:
        from pyromq.clock import SystemClock
        from pyromq.operate.jobs.book import Jobs

        async with Jobs(admin, data / "jobs" if data is not None else None, SystemClock()) as jobs:
            record = start(jobs)
            if data is not None:
                click.echo(f"job {record.id}: {record.spec.title.lower()}, {record.spec.text()}", err=True)
            with counting("working") as tell:
                while (record := jobs.get(record.id)).is_active:
                    tell(record.counts.attempted)
                    if record.note:
                        click.echo(f"{record.state.value}: {record.note}; see pyromq job resume, cancel", err=True)
                    await jobs.changed(record.id)
            return record, list(jobs.results(record.id))

    record, results = cluster.ask(work)
    _write_results(results, cluster.output)
    click.echo(record.verdict(), err=True)
    if record.has_doubt and not record.dry_run:
        raise click.exceptions.Exit(ExitCode.PARTIAL)


def _write_results(found: Iterable[ItemResult], output: Form | None) -> None:
    import msgspec

    rows = ({**msgspec.structs.asdict(each), "outcome": each.outcome.value} for each in found)
    write_rows(sys.stdout, form_for(output, sys.stdout), _RESULTS, rows)


def _with_book(data: Path, look: Callable[[Jobs], Any]) -> Any:
    """Look into the folder of jobs; no cluster is needed."""
    import asyncio

    from pyromq.clock import SystemClock
    from pyromq.operate.jobs.book import Jobs

    async def run() -> Any:
        async with Jobs(None, data / "jobs", SystemClock()) as jobs:
            return look(jobs)

    return asyncio.run(run())


def job_row(record: JobRecord) -> dict[str, Any]:
    """Return the fields of a job that are shown, its counts among them."""
    import msgspec

    row = {
        name: getattr(record, name) for name in ("id", "by", "note", "continues", "dry_run", "created_ms", "ended_ms")
    }
    what = f"{record.spec.title.lower()}: {record.spec.text()}" + (" (dry run)" if record.dry_run else "")
    return {**row, **msgspec.structs.asdict(record.counts), "state": record.state.value, "what": what}
