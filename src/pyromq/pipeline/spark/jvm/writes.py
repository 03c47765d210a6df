"""Plans of writes for the JVM lane: the checks, keys and markers of the Python sink, as JSON (``WritePlan.java``).

{"sink": {"topic": "orders", "topics": ["orders"], "names": {"orders": "orders"}, "group": "PYROMQ_SPARK_SINK",
          "batch_bytes": 262144, "in_flight": 8, "settle_ms": 1000, "digest": "…", "system": "", "reserved": [… ],
          "bad_topic": "", "bad_folder": "/data/bad"},
 "replay": {"decided": 6, "ranges": [{"topic": "orders", "broker": "broker-a", "queue": 0, "start": 5, "end": 9, …}],
            "live": false, "goes_on": {"batch": 5, "rows": {"0": 12}}, "again": {"ranges": […], "goes_on": null}},
 "cluster": {…}, "pulls": {…}}

Java asks by planning a batch read whose option ``__lane`` holds the question: {"write": "stream", "query": "…",
"batch": 7} before a batch, {"commit": 7} behind one of an idempotent query, with {"live": {"rows": {"0": 12},
"found": 0, …}} where nobody knew its end. The answer is the value of the only partition.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyromq.model import property_names as names
from pyromq.model.namespaces import wrap
from pyromq.pipeline.core.borders import in_one_sentence
from pyromq.pipeline.core.checkpoint_log import files_at
from pyromq.pipeline.core.options import LANE_MARK, SourceOptions, Use
from pyromq.pipeline.reading.cluster import Cluster
from pyromq.pipeline.sink.bad_rows import is_folder
from pyromq.pipeline.sink.keys import digest_of
from pyromq.pipeline.sink.options import Mode, SinkOptions
from pyromq.pipeline.sink.replay import (
    LiveBatch,
    ReplayedStretch,
    has_end,
    marker_of,
    marker_options,
    move_marker,
)
from pyromq.pipeline.sink.sender import PRODUCER_GROUP
from pyromq.pipeline.sink.sink import checked_options, plan_of
from pyromq.pipeline.spark.jvm.plans import PlannedPart, cluster_facts, pull_facts, range_facts
from pyromq.wire.property_text import join_items

_USES: Final = {use.value: use for use in (Use.BATCH, Use.STREAM)}


class WriteQuestion(msgspec.Struct, frozen=True):
    """What Java asks."""

    write: str = ""  # batch or stream
    query: str = ""
    overwrites: bool = False
    batch: int | None = None  # that is planned
    commit: int | None = None
    live: LiveBatch | None = None


def write_planner(given: Mapping[str, str], schema: StructType) -> DataSourceReader | None:
    """A reader whose plan is the answer; None where Java does not ask about a write."""
    mark = given.get(LANE_MARK, "")
    if not mark.startswith("{"):
        return None
    return WritePlanner(dict(given), schema, msgspec.json.decode(mark, type=WriteQuestion))


class WritePlanner(DataSourceReader):
    """Answers one question; nothing is ever read with it."""

    def __init__(self, given: Mapping[str, str], schema: StructType, question: WriteQuestion) -> None:
        self._given = given
        self._schema = schema
        self._question = question

    @in_one_sentence
    def partitions(self) -> Sequence[InputPartition]:
        question = self._question
        use = Use.STREAM if question.commit is not None else _USES[question.write]
        options = checked_options(self._given, self._schema, question.overwrites, use)
        if question.commit is not None:
            cluster = Cluster(marker_options(options))
            move_marker(question.commit, cluster, marker_of(options, cluster), question.live)
            return [PlannedPart("{}")]
        identity = question.query or options.sink_id or uuid.uuid4().hex
        is_live = question.batch is not None and not has_end(options, question.batch)
        return [PlannedPart(write_plan_text(options, identity, is_live=is_live))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        raise NotImplementedError("a plan is not read")


def _stretch_facts(reaching: SourceOptions, stretch: ReplayedStretch) -> dict[str, Any]:
    goes_on = stretch.goes_on
    return {
        "ranges": [range_facts(reaching, each) for each in stretch.ranges],
        "goes_on": None if goes_on is None else {"batch": goes_on.batch, "rows": dict(goes_on.rows)},
    }


def write_plan_text(options: SinkOptions, identity: str, *, is_live: bool = False) -> str:
    """The plan of one batch. Raises TopicNotFoundError, SourceUnreachableError, OptionError."""
    reaching, plan = options.reaching, plan_of(options)
    namespace = reaching.namespace
    sink = {
        "topic": options.topic,
        "topics": sorted(options.topics),
        "names": {topic: wrap(namespace, topic) for topic in options.topics},
        "group": wrap(namespace, options.group or PRODUCER_GROUP),
        "batch_bytes": options.batch_bytes,
        "in_flight": options.in_flight,
        "settle_ms": options.settle_ms,
        "digest": digest_of(identity),
        "system": join_items([(names.INSTANCE_ID, namespace)] if namespace else []),
        "reserved": sorted(names.RESERVED),
        "bad_topic": "" if is_folder(options.bad_rows) else wrap(namespace, options.bad_rows),
        "bad_folder": files_at(options.bad_rows)[1] if is_folder(options.bad_rows) else "",
    }
    replay = None
    if options.mode is Mode.IDEMPOTENT:
        again = plan.replay.again and _stretch_facts(reaching, plan.replay.again)
        replay = {
            "decided": plan.decided, "live": is_live, **_stretch_facts(reaching, plan.replay), "again": again,
        }  # fmt: skip
    cluster, pulls = cluster_facts(reaching), pull_facts(reaching)
    return msgspec.json.encode({"sink": sink, "replay": replay, "cluster": cluster, "pulls": pulls}).decode()
