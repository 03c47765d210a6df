"""Jobs of the pipeline: each a function with a typed summary, each a command of ``pyromq pipeline``.

    archive    topics to Parquet, exactly once          report    what happened to messages, in numbers and a page
    replay     a stretch of topics into a topic again   dedupe    a topic without repetitions
    redrive    dead letters to where they came from     run       a pipeline described in a file

``pyromq.pipeline.store_source.read_store`` reads store folders without a broker. Nothing of Spark is imported before
it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyromq.pipeline.jobs.archive_job import Archived, archive, read_archive
    from pyromq.pipeline.jobs.compaction import Compacted, compact_archive
    from pyromq.pipeline.jobs.dedupe_job import Deduped, dedupe
    from pyromq.pipeline.jobs.redrive_job import Redriving, redrive
    from pyromq.pipeline.jobs.replay_job import Replayed, replay
    from pyromq.pipeline.jobs.report_job import report
    from pyromq.pipeline.jobs.report_numbers import Report
    from pyromq.pipeline.jobs.report_page import page
    from pyromq.pipeline.jobs.run_job import Ran, run_file
    from pyromq.pipeline.jobs.topics import Selection

__all__ = [
    "Archived", "Compacted", "Deduped", "Ran", "Redriving", "Replayed", "Report", "Selection", "archive",
    "compact_archive", "dedupe", "page", "read_archive", "redrive", "replay", "report", "run_file",
]  # fmt: skip

_HOMES = {
    "Archived": "archive_job", "archive": "archive_job", "read_archive": "archive_job",
    "Compacted": "compaction", "compact_archive": "compaction",
    "Deduped": "dedupe_job", "dedupe": "dedupe_job",
    "Redriving": "redrive_job", "redrive": "redrive_job",
    "Replayed": "replay_job", "replay": "replay_job",
    "Report": "report_numbers", "report": "report_job", "page": "report_page",
    "Ran": "run_job", "run_file": "run_job",
    "Selection": "topics",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
