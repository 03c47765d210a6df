from __future__ import annotations

from typing import Any

import pytest

from pyromq.model import limits
from pyromq.model.topic import GroupConfig, TopicConfig

LONG = "x" * (limits.ATTRIBUTE_BYTES_MAX + 1)
MANY = {f"a{number}": "1" for number in range(limits.ATTRIBUTES_MAX + 1)}


def test_ordinary_topics_and_groups_have_no_problem() -> None:
    attributes = {"queue.type": "SimpleCQ"}
    largest = TopicConfig(topic_name="t", read_queue_nums=limits.QUEUES_MAX, attributes=attributes)
    assert limits.problem_of_topic(largest) is None
    ladder = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1_000] * 100}}
    assert (
        limits.problem_of_group(GroupConfig(group_name="g", group_retry_policy=ladder, attributes=attributes)) is None
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"read_queue_nums": limits.QUEUES_MAX + 1}, "queue numbers"),
        ({"write_queue_nums": -1}, "queue numbers"),
        ({"perm": 256}, "permission 256"),
        ({"topic_sys_flag": 1 << 31}, "system flag"),
        ({"attributes": {"message.type": LONG}}, "message.type of topic orders"),
        ({"attributes": MANY}, f"at most {limits.ATTRIBUTES_MAX}"),
    ],
)
def test_a_topic_beyond_a_limit_is_named_with_the_limit(fields: dict[str, Any], words: str) -> None:
    problem = limits.problem_of_topic(TopicConfig(topic_name="orders", **fields))
    assert problem is not None and words in problem and "orders" in problem and len(problem) < 300


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"retry_queue_nums": 1_000_000}, "1000000 retry queues"),
        ({"retry_queue_nums": -1}, "-1 retry queues"),
        ({"retry_max_times": 1 << 40}, "retryMaxTimes"),
        ({"broker_id": 1 << 63}, "brokerId"),
        ({"group_retry_policy": {"type": "CUSTOMIZED", "x": "y" * 5_000}}, "retry policy"),
        ({"subscription_data_set": [{"topic": "t" * 70_000}]}, "subscriptions"),
        ({"attributes": {"a": LONG}}, "attribute a"),
    ],
)
def test_a_group_beyond_a_limit_is_named_with_the_limit(fields: dict[str, Any], words: str) -> None:
    problem = limits.problem_of_group(GroupConfig(group_name="readers", **fields))
    assert problem is not None and words in problem and "readers" in problem and len(problem) < 300
