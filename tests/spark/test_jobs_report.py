"""``report`` with what brokers know of groups: traces may be lost, offsets are not."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.client.producer import raw_send
from pyromq.model import property_names as names
from pyromq.model.names import retry_topic
from pyromq.operate.offsets import LATEST
from pyromq.operate.resend.outcomes import ItemStatus
from pyromq.operate.resend.outgoing import Outgoing
from pyromq.pipeline.jobs import Selection
from pyromq.pipeline.jobs.resending import sending
from pyromq.pipeline.jobs.resending.outgoing import source_of
from pyromq.wire.fast.send_request import header_fields
from tests.spark.engines import report
from tests.spark.test_jobs_sending import bury
from tests.spark.test_jobs_tables import tell_trace
from tests.spark.topics import Topics

pytestmark = pytest.mark.spark


def test_a_report_is_about_its_topics_and_those_who_consume_them(spark: Any, topics: Topics) -> None:
    topic, other, trace = topics.make(), topics.make("-other"), topics.make("-trace")
    topics.send(topic, range(6))
    topics.send(other, range(2))
    rows = Selection(topics=(topic,), nameserver=topics.nameserver).frame(spark, "message_id").collect()
    tell_trace(topics, trace, topics.group, {row["message_id"]: 1_000 for row in rows})
    tell_trace(topics, trace, "elsewhere", {f"other-{number}": 1_000 for number in range(6)})

    found = report(spark, [topic, other], nameserver=topics.nameserver, trace_topic=trace)

    assert [(each.group, each.topic) for each in found.lags] == [(topics.group, topic)], "who consumes the other?"
    assert {each.group for each in found.attempts} == {each.group for each in found.slow_keys} == {topics.group}
    assert found.groups == (topics.group,)


def test_a_group_without_trace_is_told_of_as_far_as_brokers_know(
    spark: Any, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, causes = topics.make(), 22
    topics.send(topic, range(3))
    for number in range(causes):
        bury(topics, topic, [f"{number}"], error=f"cause {number:02}")
    bury(topics, "another-topic", ["x"], error="not ours")
    for attempt, count in ((1, 2), (2, 1)):
        send_back(topics, topic, attempt, count, monkeypatch)
    topics.admin.offsets.reset(topics.group, topic, to_ms=LATEST)
    topics.send(topic, range(3, 5))

    found = report(
        spark, [topic], nameserver=topics.nameserver, groups=[topics.group], trace_topic=topics.name("-none")
    )

    assert [(each.attempt, each.count) for each in found.attempts] == [(2, 2), (3, 1)]
    assert [(each.topic, each.last, each.points) for each in found.lags] == [(topic, 2, ())]
    assert [each.cause for each in found.dead[:20]] == [f"cause {number:02}" for number in range(20)]
    assert (found.dead[20].cause, found.dead[20].count) == ("all other causes", 2) and len(found.dead) == 21


def send_back(topics: Topics, topic: str, attempt: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the retry topic of the group, as brokers put it there after the n-th attempt."""
    again = topics.create(retry_topic(topics.group), 1)
    row = {"message_id": "M", "offset_message_id": "O", "keys": "", "tags": ""}
    source = source_of(row)
    with monkeypatch.context() as patched:
        patched.setattr(raw_send, "header_fields", lambda *given: {**header_fields(*given), "j": str(attempt)})
        marks = ((names.RETRY_TOPIC, topic),)
        letters = [
            Outgoing(source=source, topic=again, message_id=f"{number}", body=b"x", properties=marks, is_checked=False)
            for number in range(count)
        ]
        assert all(
            each.status is ItemStatus.SENT for each in sending.PacedSender(topics.nameserver, {}).send_all(letters)
        )


def test_what_a_group_has_passed_is_not_behind_though_the_trace_does_not_know_of_it(spark: Any, topics: Topics) -> None:
    topic, trace = topics.make(), topics.make("-trace")
    for number in range(6):
        topics.send(topic, [f"order {number}"])
    rows = Selection(topics=(topic,), nameserver=topics.nameserver).frame(spark, "message_id", "store_time").collect()
    tell_trace(
        topics, trace, topics.group, {row["message_id"]: int(row["store_time"].timestamp() * 1000) for row in rows}
    )
    topics.admin.groups.create(topics.group)
    topics.admin.offsets.reset(topics.group, topic, to_ms=LATEST)
    topics.send(topic, ["comes later", "and later"])

    found = report(spark, [topic], nameserver=topics.nameserver, trace_topic=trace)

    assert [(each.group, each.last) for each in found.lags] == [(topics.group, 2)]
    assert found.lags[0].max <= 6 and found.groups == (topics.group,)
