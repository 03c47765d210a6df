"""``pyromq store``: look at a store folder without a broker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from pyromq.cli.declared import Argument, Commands, Option
from pyromq.cli.exit_codes import ExitCode
from pyromq.cli.output.prompts import is_shown, progress_bar
from pyromq.cli.output.quiet import QuietOption
from pyromq.cli.output.tables import Column, Form, FormOption, Row, form_for, shown, write_json, write_rows

if TYPE_CHECKING:
    from pyromq.store.check.report import CheckReport

app = Commands(help="Inspect a store folder without a broker.")

_SEGMENTS_SHOWN_MAX = 12

_FINDING_COLUMNS = (
    Column("severity", "severity", styles={"error": "bold red", "warning": "yellow"}),
    Column("where", "where"),
    Column("text", "finding"),
)
_CSV_COLUMNS = tuple(Column(key, key) for key in ("severity", "kind", "where", "position", "size", "text"))
_SEGMENT_COLUMNS = (
    Column("name", "commit log file"),
    Column("records", "records", right=True),
    Column("record_bytes", "bytes", right=True),
    Column("checksummed", "with checksum", right=True),
    Column("damaged_bytes", "damaged bytes", right=True),
    Column("end", "then"),
)

_LIVE_COLUMNS = (
    Column("position", "position", right=True),
    Column("bytes", "bytes", right=True),
    Column("reason", "damage"),
)


@app.command()
def check(
    folder: Annotated[Path, Argument(metavar="DIR", help="Store folder: the one with commitlog in it.")],
    index_slots: Annotated[
        int, Option(min=1, help="Hash slots of an index file (RocketMQ: maxHashSlotNum).")
    ] = 5_000_000,
    live: Annotated[
        bool, Option("--live", help="Show what the broker's own scrub has found, instead of reading everything.")
    ] = False,
    output: FormOption = None,
    quiet: QuietOption = False,
) -> int:
    """Verify a store folder of PyroMQ or Apache RocketMQ without changing anything in it.

    Exit code 0: sound. 5: something to report, see the last line. 2: there is no store in the folder.
    """
    if live:
        return _check_live(folder, form_for(output, sys.stdout))
    from pyromq.store.check import check_store
    from pyromq.store.check.report import StoreVerdict

    with _progress() as progress:
        report = check_store(folder, index_slots=index_slots, progress=progress)
    form = form_for(output, sys.stdout)
    if form is Form.TABLE:
        _write_report(sys.stdout, report)
    else:
        _write_data(sys.stdout, form, report)
    return ExitCode.OK if report.verdict is StoreVerdict.SOUND else ExitCode.PARTIAL


def _check_live(folder: Path, form: Form) -> int:
    from pyromq.errors import ConfigError
    from pyromq.store.files.disk import RealDisk
    from pyromq.store.scrub import read_note

    note = read_note(RealDisk(), folder)
    if note is None:
        raise ConfigError(
            f"{folder} has no note of a scrub: a broker of PyroMQ makes it within some minutes, unless "
            "store.scrub_bytes_s is 0; without --live the folder is read now"
        )
    rows: list[Row] = [
        {"position": each.position, "bytes": each.end - each.position, "reason": each.reason} for each in note.damaged
    ]
    if rows or form is not Form.TABLE:
        write_rows(sys.stdout, form, _LIVE_COLUMNS, rows)
    if form is Form.TABLE:
        found = f"{len(rows)} damaged ranges" if rows else "nothing damaged"
        sys.stdout.write(f"{found}; position {note.position} of {note.end} in pass {note.passes + 1}\n")
    return ExitCode.PARTIAL if rows else ExitCode.OK


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """A bar with the bytes of log read so far and how fast, on a terminal."""
    if not is_shown():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with progress_bar(TextColumn("{task.description}"), *columns) as bar:
        task = bar.add_task("reading the log", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


# --- for programs ---


def _write_data(out: TextIO, form: Form, report: CheckReport) -> None:
    data = _as_dict(report)
    if form is Form.JSON:
        write_json(out, data, indent=2)
    elif form is Form.JSONL:
        for finding in data.pop("findings"):
            write_json(out, {"type": "finding", **finding})
        for segment in data["log"].pop("segments"):
            write_json(out, {"type": "segment", **segment})
        write_json(out, {"type": "summary", **data})
    else:
        verdict = {"severity": report.verdict.value, "kind": "verdict", "where": report.root, "text": report.summary}
        write_rows(out, form, _CSV_COLUMNS, [*data["findings"], verdict])


def _as_dict(report: CheckReport) -> dict[str, Any]:
    import msgspec

    fields = msgspec.to_builtins(report)
    log = {**fields.pop("log"), "records": report.log.records, "checksummed": report.log.checksummed}
    verdict = {"verdict": report.verdict.value, "summary": report.summary, "lost_messages": report.lost_messages}
    return {**verdict, **fields, "log": log}


# --- for people ---


def _write_report(out: TextIO, report: CheckReport) -> None:
    facts = [{"name": name, "value": value} for name, value in _facts(report)]
    write_rows(out, Form.TABLE, (Column("name", "store"), Column("value", shown(report.root))), facts)
    if report.log.segments:
        out.write("\n")
        write_rows(out, Form.TABLE, _SEGMENT_COLUMNS, _segment_rows(report))
    if report.findings:
        out.write("\n")
        rows = [{"severity": f.severity.value, "where": f.where, "text": f.text} for f in report.findings]
        write_rows(out, Form.TABLE, _FINDING_COLUMNS, rows)
    if report.not_listed:
        out.write(f"… and {report.not_listed} more like these\n")
    out.write(f"\n{report.summary}\n")


def _facts(report: CheckReport) -> Iterator[tuple[str, str]]:
    from pyromq.store.check.report import count_of

    log, queues, index = report.log, report.queues, report.index
    stop = "open in a process" if report.in_use else "closed" if report.clean else "not closed"
    seal = "no seal" if report.sealed_position is None else f"sealed up to position {report.sealed_position}"
    yield "state", f"{stop}, {seal}"
    files = f"{count_of(len(log.segments), 'file')} of {log.segment_bytes} bytes"
    yield "log", f"{count_of(log.records, 'record')} in {files}, positions {log.first} to {log.end}"
    unprotected = log.records - log.checksummed
    body_only = f", {unprotected} with a CRC of the body only" if unprotected else ""
    yield "checksums", f"{count_of(log.checksummed, 'record')} with one over the whole record{body_only}"
    fillers = f", {queues.fillers} fillers for lost ones" if queues.fillers else ""
    yield "queues", f"{count_of(queues.queues, 'queue')}, {count_of(queues.entries, 'message')}{fillers}"
    yield "key index", f"{count_of(index.files, 'file')}, {count_of(index.entries, 'key')}"


def _segment_rows(report: CheckReport) -> Iterator[Row]:
    """Every file of a small log; of a large one those at both ends and those with damage."""
    segments = report.log.segments
    many = len(segments) > _SEGMENTS_SHOWN_MAX
    hidden = 0
    for number, each in enumerate(segments):
        inside = _SEGMENTS_SHOWN_MAX // 2 <= number < len(segments) - _SEGMENTS_SHOWN_MAX // 2
        if many and inside and not each.damaged_bytes:
            hidden += 1
            continue
        if hidden:
            yield {"name": f"… {hidden} undamaged files"}
            hidden = 0
        end = "next file" if each.closed else "end of the log" if each is segments[-1] else ""
        yield {
            "name": each.name,
            "records": each.records,
            "record_bytes": each.record_bytes,
            "checksummed": each.checksummed,
            "damaged_bytes": each.damaged_bytes or None,
            "end": end,
        }
