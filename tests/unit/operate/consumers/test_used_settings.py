"""What members use, read from their own words and set beside the group's."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.aio import Admin, Message, Producer, PushConsumer, ReceivedMessage
from pyromq.model.topic import GroupConfig
from pyromq.operate.consumers.group_state import subscription_differences
from pyromq.operate.consumers.members import ClientState
from pyromq.operate.consumers.used_settings import SettingsInUse, compare_settings, settings_of_member
from pyromq.testing import LoopbackBroker

JAVA = {
    "maxReconsumeTimes": "-1",
    "consumeTimeout": "15",
    "PROP_THREADPOOL_CORE_SIZE": "20",
    "consumeMessageBatchMaxSize": "1",
    "PROP_CONSUMEORDERLY": "false",
    "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
    "messageModel": "CLUSTERING",
    "PROP_CONSUMER_START_TIMESTAMP": "1700000000000",
}


def test_javas_properties_are_read() -> None:
    assert settings_of_member(JAVA) == SettingsInUse(
        retries_max=-1,
        consume_timeout_ms=900_000,
        threads=20,
        batch_max=1,
        is_orderly=False,
        mode="push",
        model="clustering",
        started_ms=1_700_000_000_000,
    )


def test_what_a_client_does_not_tell_or_tells_wrongly_is_not_known() -> None:
    assert settings_of_member({"PROP_CLIENT_VERSION": "V5", "pyromq.protocol": "grpc"}) == SettingsInUse()
    assert settings_of_member({"maxReconsumeTimes": "many", "consumeTimeout": None}) == SettingsInUse()


def test_a_limit_of_its_own_differs_from_the_groups_and_an_open_one_does_not() -> None:
    config = GroupConfig(group_name="billing", retry_max_times=16)
    open_one, own, orderly = (
        SettingsInUse(retries_max=-1, is_orderly=False),
        SettingsInUse(retries_max=5, is_orderly=False),
        SettingsInUse(retries_max=-1, is_orderly=True),
    )
    (retries, *_) = compare_settings(config, [("a", open_one), ("b", open_one)])
    assert (retries.group, retries.members, retries.differs) == ("16", {"the group's": ("a", "b")}, False)
    (retries, *_) = compare_settings(config, [("a", open_one), ("b", own)])
    assert (retries.members, retries.differs) == ({"the group's": ("a",), "5": ("b",)}, True)
    (retries, *_) = compare_settings(config, [("a", orderly)])
    assert (retries.members, retries.differs) == ({"no limit": ("a",)}, True), "an orderly queue retries for ever"


def test_without_members_only_what_brokers_have_is_listed() -> None:
    rows = compare_settings(GroupConfig(group_name="billing", retry_max_times=3), [])
    assert [(row.setting, row.group, row.members) for row in rows] == [("retries", "3", {})]


def test_the_difference_of_a_member_is_told_against_the_others() -> None:
    states = [
        ClientState(client_id="a", subscriptions=frozenset({("orders", "*")})),
        ClientState(client_id="b", subscriptions=frozenset({("orders", "new")})),
        ClientState(client_id="c", problem="it did not answer"),
    ]
    told = subscription_differences(states, frozenset({"b", "c"}))
    assert told == {"b": "it subscribes to orders (new), the others to orders (*)"}
    assert subscription_differences(states[:1], frozenset({"a"})) == {}, "there is nobody to compare with"


@pytest.mark.usefixtures("quiet")
def test_a_stuck_member_has_its_lag_and_since_when() -> None:
    async def test() -> None:
        never = asyncio.Event()

        async def listen(message: ReceivedMessage) -> None:
            await never.wait()

        async with (
            LoopbackBroker(virtual_time=True, sockets=False) as broker,
            Admin(broker.nameserver) as admin,
            Producer(broker.nameserver, group="shop") as producer,
        ):
            await admin.topics.create("orders", queues=1)
            consumer = PushConsumer(broker.nameserver, group="billing", listener=listen, topics="orders", threads=7)
            async with consumer:
                for _ in range(3):
                    await producer.send(Message("orders", b"x"))
                await broker.advance(seconds=90)
                state = await admin.groups.describe("billing")
                [member] = state.members
                assert (member.lag, member.uses.mode, member.uses.consume_timeout_ms) == (3, "push", 900_000)
                assert broker.clock.now_ms() - member.listening_since_ms >= 60_000
                never.set()

    asyncio.run(test())
