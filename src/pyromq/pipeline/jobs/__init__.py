"""Jobs of the pipeline: each a function with a typed summary, each a command of ``pyromq pipeline``.

    archive    topics to Parquet, exactly once          report    what happened to messages, in numbers and a page
    replay     a stretch of topics into a topic again   dedupe    a topic without repetitions
    redrive    dead letters to where they came from     run       a pipeline described in a file

Options of a job are keywords, typed by its ``…Options``; a name that does not exist is refused with the closest one.
``pyromq.pipeline.read_store`` reads store folders without a broker. Nothing of Spark is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyromq.pipeline.jobs.archiving.compaction import Compacted, compact_archive
    from pyromq.pipeline.jobs.archiving.job import Archived, archive, read_archive
    from pyromq.pipeline.jobs.archiving.options import ArchiveFormat, ArchiveOptions, ArchiveWriterKind
    from pyromq.pipeline.jobs.common.patching import PatchInput
    from pyromq.pipeline.jobs.common.selection import Selection
    from pyromq.pipeline.jobs.reporting.job import report
    from pyromq.pipeline.jobs.reporting.numbers import Report
    from pyromq.pipeline.jobs.reporting.options import ReportOptions
    from pyromq.pipeline.jobs.reporting.page import page
    from pyromq.pipeline.jobs.resending.options import RedriveOptions, ReplayOptions
    from pyromq.pipeline.jobs.resending.redrive import Redriving, redrive
    from pyromq.pipeline.jobs.resending.replay import ReplaySummary, replay
    from pyromq.pipeline.jobs.running.dedupe import Deduped, dedupe
    from pyromq.pipeline.jobs.running.file_cases import CaseOutcome, check_file
    from pyromq.pipeline.jobs.running.options import DedupeOptions
    from pyromq.pipeline.jobs.running.run import Ran, run_file

__all__ = [
    "ArchiveFormat", "ArchiveOptions", "ArchiveWriterKind", "Archived", "CaseOutcome", "Compacted", "DedupeOptions",
    "Deduped", "PatchInput", "Ran", "RedriveOptions", "Redriving", "ReplayOptions", "ReplaySummary", "Report",
    "ReportOptions", "Selection", "archive", "check_file", "compact_archive", "dedupe", "page", "read_archive",
    "redrive", "replay", "report", "run_file",
]  # fmt: skip

_HOMES = {
    "Archived": "archiving.job", "archive": "archiving.job", "read_archive": "archiving.job",
    "Compacted": "archiving.compaction", "compact_archive": "archiving.compaction",
    "Deduped": "running.dedupe", "dedupe": "running.dedupe",
    "Redriving": "resending.redrive", "redrive": "resending.redrive",
    "ReplaySummary": "resending.replay", "replay": "resending.replay",
    "Report": "reporting.numbers", "report": "reporting.job", "page": "reporting.page",
    "Ran": "running.run", "run_file": "running.run",
    "CaseOutcome": "running.file_cases", "check_file": "running.file_cases",
    "Selection": "common.selection", "PatchInput": "common.patching",
    "ArchiveFormat": "archiving.options", "ArchiveOptions": "archiving.options",
    "ArchiveWriterKind": "archiving.options", "DedupeOptions": "running.options",
    "RedriveOptions": "resending.options", "ReplayOptions": "resending.options", "ReportOptions": "reporting.options",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
