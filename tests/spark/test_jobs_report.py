"""``report`` with what brokers know of groups: traces may be lost, offsets are not."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.client.admin.offsets import LATEST
from pyromq.pipeline.jobs import Selection, report
from tests.spark.test_jobs_tables import tell_trace
from tests.spark.topics import Topics

pytestmark = pytest.mark.spark


def test_what_a_group_has_passed_is_not_behind_though_the_trace_does_not_know_of_it(spark: Any, topics: Topics) -> None:
    topic, trace = topics.make(), topics.make("-trace")
    for number in range(6):
        topics.send(topic, [f"order {number}"])
    rows = Selection(topics=(topic,), nameserver=topics.nameserver).frame(spark, "message_id", "store_time").collect()
    tell_trace(
        topics, trace, topics.group, {row["message_id"]: int(row["store_time"].timestamp() * 1000) for row in rows}
    )
    topics.admin.create_group(topics.group)
    topics.admin.reset_offset(topics.group, topic, to_ms=LATEST)
    topics.send(topic, ["comes later", "and later"])

    found = report(spark, [topic], nameserver=topics.nameserver, trace_topic=trace)

    assert [(each.group, each.last) for each in found.lags] == [(topics.group, 2)]
    assert found.lags[0].max <= 6 and found.groups == (topics.group,)
