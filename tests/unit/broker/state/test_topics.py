from __future__ import annotations

import errno

import pytest

from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.state.topics import reply_topic
from pyromq.errors import InvalidNameError, StoreReadOnlyError
from pyromq.model.names import DEFAULT_TOPIC
from pyromq.model.topic import TopicConfig
from pyromq.testing import FaultyDisk
from pyromq.wire.codes import ResponseCode
from tests.unit.broker.builders import topics


def template(name: str = "mould", *, queues: int = 8, perm: int = 7) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)


@pytest.mark.parametrize(("asked", "made"), [(4, 4), (8, 8), (100, 8), (0, 0), (-3, 0)])
def test_a_topic_is_created_by_the_first_send_with_no_more_queues_than_its_template(asked: int, made: int) -> None:
    found, changes = topics()
    config = found.for_send("new", DEFAULT_TOPIC, asked, unit=False)
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (made, made, 6)
    assert found.get("new") == config and changes == ["changed"]
    assert found.for_send("new", DEFAULT_TOPIC, 1, unit=False) is config and changes == ["changed"]


def test_a_template_without_the_right_to_be_inherited_makes_nothing() -> None:
    found, _ = topics()
    found.update(template(perm=6))
    with pytest.raises(RefusedError) as refused:
        found.for_send("new", "mould", 4, unit=False)
    assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST and "mould" in refused.value.remark
    found.update(template(perm=5))
    assert found.for_send("new", "mould", 4, unit=False).perm == 4


def test_without_automatic_creation_the_default_template_makes_nothing_and_others_do() -> None:
    found, _ = topics(BrokerSettings(auto_create_topics=False))
    assert found.get(DEFAULT_TOPIC) is None
    found.update(template(DEFAULT_TOPIC))  # left behind by a time when it was allowed
    found.update(template())
    with pytest.raises(RefusedError, match="cannot be created automatically"):
        found.for_send("new", DEFAULT_TOPIC, 4, unit=False)
    assert found.for_send("new", "mould", 4, unit=False).write_queue_nums == 4


def test_a_retry_topic_needs_no_template() -> None:
    found, _ = topics(BrokerSettings(auto_create_topics=False))
    config = found.for_send("%RETRY%readers", "nothing", 4, unit=False)
    assert (config.write_queue_nums, config.perm) == (1, 6)


@pytest.mark.parametrize("name", ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "SELF_TEST_TOPIC"])
def test_clients_must_not_send_to_topics_of_the_broker(name: str) -> None:
    found, _ = topics()
    assert found.is_system(name) and name in found.reserved
    with pytest.raises(RefusedError) as refused:
        found.for_send(name, DEFAULT_TOPIC, 4, unit=False)
    assert refused.value.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("name", ["", "../x", "a b", "x" * 128])
def test_names_that_are_not_allowed_make_no_topic(name: str) -> None:
    found, changes = topics()
    with pytest.raises(InvalidNameError):
        found.for_send(name, DEFAULT_TOPIC, 4, unit=False)
    assert changes == []


def test_every_broker_has_its_system_topics_and_keeps_what_an_operator_made_of_them() -> None:
    disk = FaultyDisk()
    found, _ = topics(disk=disk)
    assert found.is_system(reply_topic("DefaultCluster")) and found.is_system("rmq_sys_anything")
    assert {name for name, _ in found.items()} >= {"TBW102", "BenchmarkTest", "DefaultCluster", "broker-a"}
    found.update(template(DEFAULT_TOPIC, queues=2))
    again, _ = topics(disk=disk)
    config = again.get(DEFAULT_TOPIC)
    assert config is not None and config.write_queue_nums == 2


def test_a_change_is_on_disk_before_it_is_told_and_one_without_effect_is_not_told() -> None:
    disk = FaultyDisk()
    found, changes = topics(disk=disk)
    found.update(template())
    found.update(template())
    assert changes == ["changed"]
    again, _ = topics(disk=disk.after_crash())
    assert again.get("mould") == template()
    assert found.delete("mould") and not found.delete("mould")
    assert changes == ["changed"] * 2


def test_a_change_that_the_disk_refuses_did_not_happen() -> None:
    disk = FaultyDisk()
    found, changes = topics(disk=disk)
    disk.fail_at(disk.operations + 1, errno.ENOSPC)
    with pytest.raises(StoreReadOnlyError):
        found.update(template())
    assert found.get("mould") is None and changes == []
    found.update(template())
    disk.fail_at(disk.operations + 1, errno.ENOSPC)
    with pytest.raises(StoreReadOnlyError):
        found.update(template(queues=3))
    disk.fail_at(disk.operations + 1, errno.ENOSPC)
    with pytest.raises(StoreReadOnlyError):
        found.delete("mould")
    assert found.get("mould") == template() and changes == ["changed"]


def test_an_announcement_moves_the_version_that_name_servers_compare() -> None:
    found, changes = topics()
    before = found.table.version
    found.announce()
    assert found.table.version.counter == before.counter + 1 and changes == ["changed"]


def test_attributes_are_added_and_removed_one_by_one() -> None:
    found, _ = topics()
    config = found.with_attributes(template(), "+message.type=FIFO,+reserve.time=5")
    assert config.attributes == {"message.type": "FIFO", "reserve.time": "5"}
    config = found.with_attributes(config, "-reserve.time,-unknown,+message.type=DELAY")
    assert config.attributes == {"message.type": "DELAY"}
    assert found.with_attributes(config, "") == config


@pytest.mark.parametrize("change", ["message.type=FIFO", "+message.type", "+=x", "-", "+"])
def test_attribute_changes_that_say_nothing_are_refused(change: str) -> None:
    found, _ = topics()
    with pytest.raises(RefusedError) as refused:
        found.with_attributes(template(), change)
    assert refused.value.code == ResponseCode.INVALID_PARAMETER


def test_topics_that_a_crash_took_are_made_again_from_their_queues() -> None:
    found, _ = topics()
    found.create("known", queues=4)
    assert found.restore([("orders", 0), ("orders", 5), ("known", 7), ("%RETRY%g", 0)]) == ["%RETRY%g", "orders"]
    assert found.require("orders").write_queue_nums == 6
    assert found.require("known").write_queue_nums == 4
    assert found.restore([("orders", 0)]) == []


def test_a_topic_that_a_send_made_is_restored_with_all_queues_that_producers_know() -> None:
    """A crash came before it was saved, and before each of its queues had a message."""
    found, _ = topics()
    assert found.restore([("young", 2), ("%DLQ%g", 0)]) == ["%DLQ%g", "young"]
    assert found.require("young").write_queue_nums == found.require("young").read_queue_nums == 4
    assert found.require("%DLQ%g").write_queue_nums == 1


def test_name_servers_learn_what_changed_and_everything_when_that_is_not_known() -> None:
    found, _ = topics()
    found.take_changes()
    assert found.take_changes() == frozenset()
    found.create("orders", queues=4)
    found.update(TopicConfig(topic_name="payments"))
    assert found.take_changes() == {"orders", "payments"}
    for change in (found.announce, lambda: found.delete("orders")):
        change()
        found.create("others", queues=1)
        assert found.take_changes() is None
