"""How many topics and groups a broker keeps, and how often it saves them."""

from __future__ import annotations

import pytest

from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.state.topics import system_topics
from pyromq.model.topic import GroupConfig, TopicConfig
from pyromq.testing import FaultyDisk
from tests.unit.broker.builders import groups, topics

SYSTEM = len(system_topics(BrokerSettings()))


def test_a_broker_that_has_all_the_topics_it_keeps_refuses_the_next_and_keeps_the_rest() -> None:
    known, _ = topics(BrokerSettings(topics_max=SYSTEM + 1))
    known.for_send("orders", "TBW102", 4, unit=False)
    for attempt in (
        lambda: known.for_send("payments", "TBW102", 4, unit=False),
        lambda: known.create("%RETRY%readers", queues=1),
        lambda: known.update(TopicConfig(topic_name="payments")),
        lambda: known.update_all([TopicConfig(topic_name="orders"), TopicConfig(topic_name="payments")]),
    ):
        with pytest.raises(RefusedError, match="topics_max"):
            attempt()
    assert known.get("payments") is None and known.require("orders").read_queue_nums == 4
    known.update(TopicConfig(topic_name="orders", read_queue_nums=9))
    known.create("TRANS_CHECK_MAX_TIME_TOPIC", queues=1)  # its own needs come first
    assert known.restore([("found", 3)]) == ["found"], "what has messages is never left out"


def test_a_broker_that_has_all_the_groups_it_keeps_refuses_the_next() -> None:
    known = groups(BrokerSettings(groups_max=2))
    known.update_all([GroupConfig(group_name="a"), GroupConfig(group_name="b")])
    for attempt in (lambda: known.find("c"), lambda: known.update(GroupConfig(group_name="c"))):
        with pytest.raises(RefusedError, match="groups_max"):
            attempt()
    known.update(GroupConfig(group_name="a", retry_max_times=3))


def test_a_list_of_topics_or_groups_is_saved_once() -> None:
    disk = FaultyDisk()
    known, changes = topics(disk=disk)
    before = disk.operations
    known.update(TopicConfig(topic_name="first"))
    once = disk.operations - before
    before = disk.operations
    known.update_all([TopicConfig(topic_name=f"topic-{number}") for number in range(50)])
    assert disk.operations - before == once and changes == ["changed", "changed"]


def test_a_topic_that_a_send_made_is_durable_when_an_operator_who_creates_it_is_answered() -> None:
    disk = FaultyDisk()
    known, _ = topics(disk=disk)
    made = known.for_send("orders", "TBW102", 4, unit=False)
    assert not known.table.is_durable
    known.update(made)
    assert known.table.is_durable
    before = disk.operations
    known.update(made)
    assert disk.operations == before, "nothing is written twice"
