"""Reports of streaming queries as families; no I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from pyromq.metrics import exporter_table as table
from pyromq.metrics.declared import Metric
from pyromq.metrics.samples import Family, Labels, Value
from pyromq.operate.query_reports import QueryReport, SourceReport

_SHOWN_MS: Final = 3_600_000  # after its last word


def query_families(reports: Iterable[QueryReport], now_ms: int) -> list[Family]:
    """Return the metrics of queries that said something within the last hour, each by its name, or else its id."""
    found = defaultdict[Metric, dict[Labels, Value]](dict)
    for report in reports:  # the newest first: of two with one name that counts
        for source in report.sources if now_ms - report.told_ms < _SHOWN_MS else ():
            labels = report.name or report.id, source.group
            for metric, value in _of_query(report, source, now_ms):
                found[metric].setdefault(labels, value)
            for queue in source.queues:
                place = *labels, queue.topic, queue.broker, str(queue.queue)
                found[table.QUERY_QUEUE_LAG].setdefault(place, queue.lag)
                found[table.QUERY_QUEUE_MESSAGES].setdefault(place, queue.offset)
    return [Family(metric, list(samples.items())) for metric, samples in found.items()]


def _of_query(report: QueryReport, source: SourceReport, now_ms: int) -> Iterator[tuple[Metric, Value]]:
    yield table.QUERY_RUNNING, int(not report.ended_ms)
    yield table.QUERY_REPORT_AGE, max(0, now_ms - report.told_ms) / 1000
    yield table.QUERY_ROWS, report.rows
    yield table.QUERY_ROW_RATE, report.rows_per_s
    yield table.QUERY_BATCH_TIME, report.batches[-1].took_ms / 1000 if report.batches else 0
    yield table.QUERY_LAG, source.lag
