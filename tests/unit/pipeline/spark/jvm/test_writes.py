"""Plans of writes for the JVM lane: all that a task needs to send its rows, and what Java may ask."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, LongType, StructType

from pyromq.errors import ConfigError
from pyromq.pipeline.core.errors import OptionError, SchemaError
from pyromq.pipeline.core.options import LANE_MARK, Use
from pyromq.pipeline.sink.keys import digest_of
from pyromq.pipeline.sink.options import parse_sink_options
from pyromq.pipeline.sink.sink import checked_options
from pyromq.pipeline.spark.jvm.writes import write_plan_text, write_planner

GIVEN = {"nameserver": "a:9876", "topic": "orders", "tls": "false", "lane": "jvm"}
ROWS = StructType().add("body", BinaryType())


def asked(question: str, schema: StructType = ROWS, **more: str) -> Any:
    planner = write_planner({**GIVEN, **more, LANE_MARK: question}, schema)
    assert planner is not None
    (part,) = planner.partitions()
    return json.loads(part.value)


def test_the_sink_and_its_servers() -> None:
    found = asked('{"write": "stream", "query": "q"}', batchBytes="4k", checkpointLocation="/c")
    sink = found["sink"]
    assert (sink["topic"], sink["topics"], sink["names"]) == ("orders", ["orders"], {"orders": "orders"})
    assert (sink["batch_bytes"], sink["digest"], sink["group"]) == (4096, digest_of("q"), "PYROMQ_SPARK_SINK")
    assert "UNIQ_KEY" in sink["reserved"] and sink["system"] == "" and found["replay"] is None
    assert found["cluster"]["nameservers"] == ["a:9876"]


def test_names_have_the_namespace() -> None:
    options = parse_sink_options({**GIVEN, "namespace": "ns", "topic": "orders,paid"}, Use.BATCH)
    sink = json.loads(write_plan_text(options, "q"))["sink"]
    assert sink["names"] == {"orders": "ns%orders", "paid": "ns%paid"} and sink["topic"] == ""
    assert sink["group"] == "ns%PYROMQ_SPARK_SINK" and sink["system"] == "INSTANCE_ID\x01ns\x02"


def test_a_batch_write_has_the_identity_that_it_was_given_or_one_of_its_own() -> None:
    named = asked('{"write": "batch"}', sinkId="load-7")["sink"]["digest"]
    assert named == digest_of("load-7")
    first, second = (asked('{"write": "batch"}')["sink"]["digest"] for _ in range(2))
    assert first != second


@pytest.mark.parametrize(
    ("question", "schema", "error", "words"),
    [
        ('{"write": "batch", "overwrites": true}', ROWS, ConfigError, "a topic cannot be overwritten"),
        ('{"write": "batch"}', StructType().add("id", LongType()), SchemaError, "column id is unknown to the sink"),
    ],
)
def test_mistakes_are_those_of_the_python_sink(
    question: str, schema: StructType, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        asked(question, schema)


def test_what_is_no_question_about_a_write_is_left_to_the_source() -> None:
    assert write_planner({**GIVEN, LANE_MARK: "jvm"}, ROWS) is None


def test_the_python_sink_refuses_a_lane_that_is_not_there() -> None:
    with pytest.raises(OptionError, match="option lane: jvm is not there"):
        checked_options(GIVEN, ROWS, overwrite=False, use=Use.BATCH)
    assert checked_options({**GIVEN, "lane": "auto"}, ROWS, overwrite=False, use=Use.BATCH).topic == "orders"
