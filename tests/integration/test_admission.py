"""A consumer that access control lets read nothing hears it; one that was let in before waits."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from pyromq import Admin, App, Producer, PullConsumer, PushConsumer, aio
from pyromq.errors import NoPermissionError
from pyromq.model.topic import GroupConfig
from pyromq.settings import Credentials
from pyromq.testing import LoopbackBroker, guarded_by
from pyromq.wire.json.access import PolicyEntryInfo

pytestmark = pytest.mark.integration

ROOT = Credentials("admin", "a-long-admin-secret")
SHOP = Credentials("shop", "a-long-shop-secret")


@pytest.fixture
def broker() -> Iterator[LoopbackBroker]:
    """The user shop may publish to orders, and may look at that topic."""
    with LoopbackBroker(guarded_by(ROOT), virtual_time=True, sockets=False) as made:
        with Admin(made.nameserver, credentials=ROOT) as admin:
            admin.topics.create("orders", queues=2)
            admin.access.create_user(SHOP.access_key, SHOP.secret_key)
            admin.access.apply_template("shop", "producer", topics=["orders"])
        with Producer(made.nameserver, group="shop", credentials=SHOP) as producer:
            producer.send("orders", "1")
        yield made


def _admit(broker: LoopbackBroker) -> None:
    with Admin(broker.nameserver, credentials=ROOT) as admin:
        admin.access.apply_template("shop", "consumer", topics=["orders"], groups=["billing"])


def _push(broker: LoopbackBroker, **more: Any) -> PushConsumer:
    return PushConsumer(
        broker.nameserver, group="billing", topics="orders", listener=lambda _: None, start="earliest", **more
    )


@pytest.mark.parametrize("credentials", [None, SHOP, Credentials("shop", "another-long-secret")])
@pytest.mark.parametrize("broadcast", [False, True])
def test_run_without_permission_ends_with_the_refusal(
    broker: LoopbackBroker, credentials: Credentials | None, *, broadcast: bool
) -> None:
    with pytest.raises(NoPermissionError):
        _push(broker, credentials=credentials, broadcast=broadcast).run()


def test_run_with_rights_on_the_topic_alone_ends_with_what_was_said_of_the_group(broker: LoopbackBroker) -> None:
    with Admin(broker.nameserver, credentials=ROOT) as admin:
        entry = PolicyEntryInfo(resource="Topic:orders", actions=("Sub", "Get"), decision="Allow")
        admin.access.set_policy("shop", [entry])
    with pytest.raises(NoPermissionError, match="Group:billing"):
        _push(broker, credentials=SHOP).run()


def test_poll_without_permission_raises_the_refusal(broker: LoopbackBroker) -> None:
    with (
        PullConsumer(broker.nameserver, group="billing", topics="orders", credentials=SHOP) as consumer,
        pytest.raises(NoPermissionError, match=r"Topic:orders|Group:billing"),
    ):
        consumer.poll(timeout=60)


def test_poll_of_queues_by_hand_without_permission_raises_the_refusal(broker: LoopbackBroker) -> None:
    with PullConsumer(broker.nameserver, group="billing", credentials=SHOP) as consumer:
        with pytest.raises(NoPermissionError):
            consumer.assign(consumer.queues("orders"))
            consumer.poll(timeout=60)


async def test_an_app_one_of_whose_groups_is_refused_ends() -> None:
    app = App(name="shop", credentials=SHOP)

    @app.consume("orders", group="billing")
    async def bill(_: bytes) -> None: ...

    async with LoopbackBroker(guarded_by(ROOT)) as broker:
        async with aio.Admin(broker.nameserver, credentials=ROOT) as admin:
            await admin.topics.create("orders", queues=2)
            await admin.access.create_user(SHOP.access_key, SHOP.secret_key)
        with pytest.raises(NoPermissionError):
            await app.serve(broker.nameserver)
    assert app.state == "stopped"


def test_a_consumer_in_a_block_is_refused_once_in_the_log_and_consumes_when_it_may(
    broker: LoopbackBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "pyromq.client.consumer"), _push(broker, credentials=SHOP) as consumer:
        broker.advance(minutes=5)
        assert consumer.refusal is not None
        assert len([line for line in caplog.messages if line.startswith("consumer refused")]) == 1
        _admit(broker)
        broker.advance(minutes=1)
        assert consumer.refusal is None
        assert consumer.run(messages=1, timeout=120) == 1


def test_a_consumer_whose_right_ends_waits_until_it_has_it_again(broker: LoopbackBroker) -> None:
    _admit(broker)
    producer = Producer(broker.nameserver, group="shop", credentials=ROOT)
    with _push(broker, credentials=SHOP) as consumer, producer:
        broker.advance(minutes=1)
        assert consumer.counts.ok == 1
        with Admin(broker.nameserver, credentials=ROOT) as admin:
            admin.access.update_user("shop", enabled=False)
            producer.send("orders", "2")
            broker.advance(minutes=2)
            assert consumer.refusal is None and consumer.counts.ok == 1
            admin.access.update_user("shop", enabled=True)
        assert consumer.run(messages=2, timeout=120) == 2


def test_a_group_that_an_operator_has_closed_is_waited_for(broker: LoopbackBroker) -> None:
    """Apache's brokers answer pulls of such a group with NO_PERMISSION, too."""
    _admit(broker)
    with Admin(broker.nameserver, credentials=ROOT) as admin:
        admin.groups.create(GroupConfig(group_name="billing", consume_enable=False))
        consumer = _push(broker, credentials=SHOP)
        with consumer:
            broker.advance(minutes=1)
            assert consumer.refusal is None
            admin.groups.create("billing")
            assert consumer.run(messages=1, timeout=120) == 1
