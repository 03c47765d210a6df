"""Query listener: stores the progress of streaming queries in their groups as soon as Spark has committed a batch.

The source itself tells the group at the beginning of the next trigger, which is late when triggers are far apart, and
never when there is only one. This listener hears of every batch when it is done. The progress of a query carries what
it needs: the offsets, and beside the newest ones the group and its name servers. Reports for the console are written
here too (``core.query_reports``).
"""

from __future__ import annotations

import heapq
import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

from pyspark.sql.streaming.listener import StreamingQueryListener

from pyromq.errors import MQError
from pyromq.model.queue import QueueId
from pyromq.operate.query_reports import QUEUES_MAX, QueryReports, SourceQueue, SourceReport
from pyromq.pipeline.core.offsets import OffsetFormatError, behind, from_json, from_tree
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.reading.cluster import Cluster

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """Where a group stands after a batch."""

    group: str
    nameserver: str
    offsets: tuple[tuple[QueueId, int], ...]
    lags: tuple[tuple[QueueId, int], ...] = ()  # what the batch has left unread


def progress_of(sources: Iterable[Any]) -> list[GroupPosition]:
    """Positions of a query's sources that are ours; others report something else as their latest offset.

    Only of queues that were there when the source looked: a topic that was deleted must not be reported, and if it was
    made anew it begins anew.
    """
    found = []
    for source in sources:
        latest, end = from_json(source.latestOffset), from_json(source.endOffset)
        if not (isinstance(latest, dict) and isinstance(latest.get("group"), str) and "nameserver" in latest):
            continue
        try:
            offsets, there = from_tree(end), from_tree(latest.get("offsets"))
        except OffsetFormatError:
            continue
        placed = tuple((queue, offset) for queue, offset in offsets.items() if queue in there)
        lags = tuple(behind(offsets, there).items())
        found.append(GroupPosition(latest["group"], latest["nameserver"], placed, lags))
    return found


def _reported(progress: GroupPosition) -> SourceReport:
    topics = sorted({queue.topic for queue, _ in progress.offsets})
    lags, offsets = dict(progress.lags), dict(progress.offsets)
    most = heapq.nsmallest(QUEUES_MAX, offsets, key=lambda queue: (-lags.get(queue, 0), queue))
    return SourceReport(
        group=progress.group, nameserver=progress.nameserver, topics=tuple(topics), lag=sum(lags.values()),
        queues=tuple(
            SourceQueue(queue.topic, queue.broker, queue.number, offsets[queue], lags.get(queue, 0)) for queue in most
        ),
    )  # fmt: skip


class ProgressListener(StreamingQueryListener):
    """``spark.streams.addListener(ProgressListener())``; ``register`` and ``session`` do it.

    ``options`` say how to connect where clusters ask for credentials or TLS, which no progress carries.
    """

    def __init__(
        self, options: SourceOptions | None = None, cluster_of: Callable[[SourceOptions], Cluster] = Cluster
    ) -> None:
        self._options = options or SourceOptions(retry_ms=5_000)
        self._cluster_of = cluster_of
        self._clusters: dict[tuple[str, str], Cluster] = {}  # by name servers and group
        self._reports = QueryReports()
        self._ear: Any = None  # what the JVM calls

    @property
    def _jlistener(self) -> Any:
        """What Spark's JVM calls. PySpark's own turns every event into Python objects first (``_Ear``)."""
        if self._ear is None:
            from pyspark import SparkContext

            jvm: Any = SparkContext._jvm
            self._ear = jvm.PythonStreamingQueryListenerWrapper(_Ear(self))
        return self._ear

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Do nothing: no batch has run yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.hear(json.loads(event.progress.json))

    def hear(self, progress: dict[str, Any]) -> None:
        """What a query reports after a batch, in Spark's JSON."""
        reports = progress_of(
            SimpleNamespace(latestOffset=source.get("latestOffset"), endOffset=source.get("endOffset"))
            for source in progress.get("sources", ())
        )
        for each in reports:
            self._report(each)
        self._reports.progressed(progress, tuple(map(_reported, reports)))

    def hear_end(self, query_id: str, error: str) -> None:
        self._reports.ended(query_id, error)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing: there is nothing new."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """The last batch was reported when it was done."""
        self.hear_end(str(event.id), event.exception or "")

    def _report(self, progress: GroupPosition) -> None:
        """A listener must not raise: the next batch says more than this one."""
        key = progress.nameserver, progress.group
        try:
            if key not in self._clusters:
                options = replace(self._options, nameserver=progress.nameserver, group=progress.group)
                self._clusters[key] = self._cluster_of(options)
            self._clusters[key].commit(dict(progress.offsets))
        except MQError as error:
            logger.warning("progress not stored: group=%s error=%s", progress.group, error)


class _Ear:
    """Takes the progress as one text. To walk it through Py4J costs 50 ms of the JVM's CPU for each batch: every map
    ends with an exception, for which PySpark looks up a dozen classes by names that may lie in any jar."""

    def __init__(self, listener: ProgressListener) -> None:
        self._listener = listener

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self._listener.hear(json.loads(event.progress().json()))

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing is done yet."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing new."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """The last batch was reported when it was done."""
        error = event.exception()  # an Option of Scala
        self._listener.hear_end(event.id().toString(), error.get() if error.isDefined() else "")

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]
