"""Jobs of the pipeline: each a function with a typed summary, each a command of ``pyromq pipeline``.

    archive    topics to Parquet, exactly once          report    what happened to messages, in numbers and a page
    replay     a stretch of topics into a topic again   dedupe    a topic without repetitions
    redrive    dead letters to where they came from     run       a pipeline described in a file

``pyromq.pipeline.store_files.store_source.read_store`` reads store folders without a broker. Nothing of Spark is
imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyromq.pipeline.jobs.archiving.archive_job import Archived, archive, read_archive
    from pyromq.pipeline.jobs.archiving.compaction import Compacted, compact_archive
    from pyromq.pipeline.jobs.common.topics import Selection
    from pyromq.pipeline.jobs.reporting.report_job import report
    from pyromq.pipeline.jobs.reporting.report_numbers import Report
    from pyromq.pipeline.jobs.reporting.report_page import page
    from pyromq.pipeline.jobs.resending.redrive_job import Redriving, redrive
    from pyromq.pipeline.jobs.resending.replay_job import Replayed, replay
    from pyromq.pipeline.jobs.running.dedupe_job import Deduped, dedupe
    from pyromq.pipeline.jobs.running.run_job import Ran, run_file

__all__ = [
    "Archived", "Compacted", "Deduped", "Ran", "Redriving", "Replayed", "Report", "Selection", "archive",
    "compact_archive", "dedupe", "page", "read_archive", "redrive", "replay", "report", "run_file",
]  # fmt: skip

_HOMES = {
    "Archived": "archiving.archive_job", "archive": "archiving.archive_job", "read_archive": "archiving.archive_job",
    "Compacted": "archiving.compaction", "compact_archive": "archiving.compaction",
    "Deduped": "running.dedupe_job", "dedupe": "running.dedupe_job",
    "Redriving": "resending.redrive_job", "redrive": "resending.redrive_job",
    "Replayed": "resending.replay_job", "replay": "resending.replay_job",
    "Report": "reporting.report_numbers", "report": "reporting.report_job", "page": "reporting.report_page",
    "Ran": "running.run_job", "run_file": "running.run_job",
    "Selection": "common.topics",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
