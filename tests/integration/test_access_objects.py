"""What is found by an id, a key or a position belongs to a topic, and that topic must be allowed; rights may end."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pyromq import Admin, Message, Producer, PullConsumer, PushConsumer, TransactionProducer
from pyromq.aio import Producer as AioProducer
from pyromq.errors import MQError, NoPermissionError
from pyromq.results import TransactionOutcome
from pyromq.security.resources import Action
from pyromq.settings import Credentials
from pyromq.testing import LoopbackBroker
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from pyromq.wire.message_id import decode_offset_id
from pyromq.wire.record import split_records
from tests.integration.guarded import ROOT, Client, ask_as, book_of, guarded_broker, memory_folder
from tests.integration.waiting import until
from tests.unit.security.people import add_user, allow, entry, pull_fields, secret_of, send_fields

pytestmark = pytest.mark.integration

MINE, FOREIGN = "alice-topic", "bob-topic"
GROUP = "alice-group"
ALLOWED = {MINE, f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"}


def credentials(user: str) -> Credentials:
    return Credentials(user, secret_of(user))


@pytest.fixture
def broker() -> Iterator[LoopbackBroker]:
    with memory_folder() as folder, guarded_broker(folder=folder, delay_levels_ms=(50,) * 18) as running:
        book = book_of(running)
        add_user(book, "alice")
        allow(
            book,
            "alice",
            entry(f"Topic:{MINE}", "Pub", "Sub", "Get"),
            entry(f"Group:{GROUP}", "Sub", "Get"),
            entry(f"Topic:%DLQ%{GROUP}", "Sub", "Get"),
        )
        # the name server has a book of its own
        with Admin(running.nameserver, credentials=ROOT) as admin:
            admin.topics.create(MINE, queues=1)
            admin.topics.create(FOREIGN, queues=1)
        yield running


def positions_of(broker: LoopbackBroker) -> list[int]:
    """Where every record of the log begins."""
    log = broker.broker.store
    found, position = [], 0
    while position < log.end_position:
        record = log.reader.record_at(position)
        found.append(position)
        position += record.size
    return found


async def test_nothing_that_is_returned_belongs_to_a_topic_that_is_not_allowed(broker: LoopbackBroker) -> None:
    def fill() -> None:
        with Producer(broker.nameserver, group="filler", credentials=ROOT) as producer:
            for number in range(3):
                for topic in (MINE, FOREIGN):
                    producer.send(Message(topic, b"body", keys=f"key-{number}"))
                    producer.send(Message(topic, b"later", keys=f"key-{number}", delay_level=3))
        with TransactionProducer(
            broker.nameserver,
            group="filler-tx",
            topics=(MINE, FOREIGN),
            credentials=ROOT,
            check=lambda _: TransactionOutcome.UNKNOWN,
        ) as transactions:
            for topic in (MINE, FOREIGN):
                transactions.send(Message(topic, b"half", keys="key-h"), lambda _: TransactionOutcome.UNKNOWN)

    await asyncio.to_thread(fill)
    returned: list[bytes] = []
    served = 0
    async with Client(broker.address) as peer:
        for position in positions_of(broker):
            view = await ask_as(peer, "alice", Code.VIEW_MESSAGE_BY_ID, {"offset": str(position)})
            claimed = await ask_as(peer, "alice", Code.VIEW_MESSAGE_BY_ID, {"offset": str(position), "topic": MINE})
            returned += [view.body, claimed.body]
            served += view.code == ResponseCode.SUCCESS
            back = {"offset": str(position), "group": GROUP, "delayLevel": "0", "originTopic": MINE}
            await ask_as(peer, "alice", Code.CONSUMER_SEND_MSG_BACK, back)
        for topic in (MINE, FOREIGN, "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", f"%RETRY%{GROUP}"):
            for key in ("key-0", "key-1", "key-h"):
                fields = {
                    "topic": topic,
                    "key": key,
                    "maxNum": "9",
                    "beginTimestamp": "0",
                    "endTimestamp": str(1 << 60),
                }
                returned.append((await ask_as(peer, "alice", Code.QUERY_MESSAGE, fields)).body)
            for queue in range(4):
                fields = {**pull_fields(topic, GROUP), "maxMsgNums": "64", "queueId": str(queue)}
                returned.append((await ask_as(peer, "alice", Code.PULL_MESSAGE, fields)).body)
        topics = {record.topic.decode() for body in returned if body[:1] == b"\0" for record in split_records(body)}
        assert served and MINE in topics
        assert topics <= ALLOWED
        reader = broker.broker.store.reader
        await until(lambda: (reader.range_of(f"%RETRY%{GROUP}", 0) or (0, 0))[1] >= 3, "retries")
        fields = {**pull_fields(f"%RETRY%{GROUP}", GROUP), "maxMsgNums": "64"}
        copies = split_records((await ask_as(peer, "alice", Code.PULL_MESSAGE, fields)).body)
        assert copies, "her own came back"
        assert not [copy for copy in copies if FOREIGN.encode() in copy.properties], "and nobody else's"


async def test_a_foreign_transaction_is_not_ended_nor_resumed(broker: LoopbackBroker) -> None:
    def begin() -> None:
        with TransactionProducer(
            broker.nameserver,
            group="filler-tx",
            topics=(MINE, FOREIGN),
            credentials=ROOT,
            check=lambda _: TransactionOutcome.UNKNOWN,
        ) as transactions:
            transactions.send(Message(FOREIGN, b"half"), lambda _: TransactionOutcome.UNKNOWN)

    await asyncio.to_thread(begin)
    store = broker.broker.store
    (half,) = [store.reader.record_at(each) for each in positions_of(broker)][-1:]
    fields = {
        **{"producerGroup": "filler-tx", "tranStateTableOffset": str(half.offset), "msgId": "x"},
        **{"commitLogOffset": str(half.position), "commitOrRollback": "8", "fromTransactionCheck": "false"},
    }
    async with Client(broker.address) as peer:
        for topic in ({}, {"topic": MINE}):
            refused = await ask_as(peer, "alice", Code.END_TRANSACTION, {**fields, **topic})
            assert refused.code == ResponseCode.NO_PERMISSION
            assert f"Topic:{FOREIGN}" in (refused.remark or "")
        ended = await ask_as(peer, "root", Code.END_TRANSACTION, fields)
        assert ended.code == ResponseCode.SUCCESS


async def test_a_transaction_is_not_ended_by_who_has_lost_the_right(broker: LoopbackBroker) -> None:
    book, store = book_of(broker), broker.broker.store
    add_user(book, "leaver")
    allow(book, "leaver", entry(f"Topic:{MINE}", "Pub"))
    properties = "UNIQ_KEY\x01leaver\x02TRAN_MSG\x01true\x02PGROUP\x01leaver-tx\x02"
    prepared = {**send_fields(MINE, "leaver-tx"), "f": "4", "i": properties}
    async with Client(broker.address) as peer:
        sent = await ask_as(peer, "leaver", Code.SEND_MESSAGE_V2, prepared, b"half")
        assert sent.code == ResponseCode.SUCCESS, sent.remark
        position = decode_offset_id(sent.ext["msgId"])[1]
        before = store.reader.range_of(MINE, 0)
        fields = {
            **{"producerGroup": "leaver-tx", "tranStateTableOffset": sent.ext["queueOffset"], "topic": MINE},
            **{"commitLogOffset": str(position), "commitOrRollback": "8", "fromTransactionCheck": "false"},
            "msgId": "leaver",
        }
        allow(book, "leaver", entry(f"Topic:{MINE}", "Sub"))
        refused = await ask_as(peer, "leaver", Code.END_TRANSACTION, fields)
        assert refused.code == ResponseCode.NO_PERMISSION and f"Topic:{MINE}" in (refused.remark or "")
        assert store.reader.range_of(MINE, 0) == before, "nothing was committed"
        allow(book, "leaver", entry(f"Topic:{MINE}", "Pub"))
        ended = await ask_as(peer, "leaver", Code.END_TRANSACTION, fields)
        assert ended.code == ResponseCode.SUCCESS, ended.remark
    await until(lambda: store.reader.range_of(MINE, 0) != before, "the message is there")


async def test_a_check_goes_to_producers_that_may_have_the_message(broker: LoopbackBroker) -> None:
    """A client that only says it belongs to the group of another's producer does not get its half messages."""
    access = broker.broker.access

    def body(client_id: str) -> bytes:
        return json.dumps({"clientID": client_id, "producerDataSet": [{"groupName": "filler-tx"}]}).encode()

    async with Client(broker.address) as alices, Client(broker.address) as roots, Client(broker.address) as silent:
        assert (await ask_as(alices, "alice", Code.HEART_BEAT, {}, body("a"))).code == ResponseCode.SUCCESS
        assert (await ask_as(roots, "root", Code.HEART_BEAT, {}, body("r"))).code == ResponseCode.SUCCESS
        await silent.ask(Code.GET_BROKER_CONFIG)
        producers = broker.broker.parts.tables.members.producers("filler-tx")
        may = sorted(access.may(each.connection, FOREIGN, Action.PUB) for each in producers)
        assert may == [False, True]
        assert all(access.may(each.connection, MINE, Action.PUB) for each in producers)


async def test_a_held_pull_is_refused_when_its_right_ends(broker: LoopbackBroker) -> None:
    book = book_of(broker)
    fields = {**pull_fields(MINE, GROUP), "sysFlag": "6", "suspendTimeoutMillis": "60000"}
    async with Client(broker.address) as peer, Client(broker.address) as other:
        waiting = asyncio.create_task(ask_as(peer, "alice", Code.PULL_MESSAGE, fields))
        await until(lambda: len(broker.broker.parts.waiters), "the pull waits")
        allow(book, "alice", entry("Topic:unrelated", "Pub"))  # another change, which takes nothing away
        await ask_as(other, "root", Code.GET_BROKER_CONFIG)
        assert not waiting.done()
        allow(book, "alice", entry(f"Topic:{MINE}", "Pub"))
        response = await asyncio.wait_for(waiting, 20)
        assert response.code == ResponseCode.NO_PERMISSION
        assert f"Topic:{MINE}" in (response.remark or "")
        assert not len(broker.broker.parts.waiters)


async def test_a_held_pull_gets_nothing_that_arrives_after_its_right_ended(broker: LoopbackBroker) -> None:
    book = book_of(broker)
    fields = {**pull_fields(MINE, GROUP), "sysFlag": "6", "suspendTimeoutMillis": "60000"}
    async with Client(broker.address) as peer, AioProducer(broker.nameserver, group="g", credentials=ROOT) as producer:
        waiting = asyncio.create_task(ask_as(peer, "alice", Code.PULL_MESSAGE, fields))
        await until(lambda: len(broker.broker.parts.waiters), "the pull waits")
        book.delete_user("alice")
        await producer.send(Message(MINE, b"not for alice any more"))
        response = await asyncio.wait_for(waiting, 20)
        assert (response.code, response.body) == (ResponseCode.NO_PERMISSION, b"")


# --- clients with the rights of their templates ---


def test_templates_are_enough_for_our_clients(broker: LoopbackBroker) -> None:
    with Admin(broker.nameserver, credentials=ROOT) as admin:
        for user in ("pam", "carl", "pia", "olga", "rick"):
            admin.access.create_user(user, secret_of(user))
        admin.access.apply_template("pam", "producer", topics=["orders*"])
        admin.access.apply_template("carl", "consumer", topics=["orders"], groups=["billing"])
        admin.access.apply_template("olga", "operator")
        admin.access.apply_template("rick", "read-only")
        admin.access.apply_template("pia", "pipeline", topics=["orders"], groups=["pipe"])
    with Admin(broker.nameserver, credentials=credentials("olga")) as admin:
        admin.topics.create("orders", queues=2)
        admin.groups.create("billing")
        with pytest.raises(NoPermissionError):
            admin.access.create_user("friend", "some-password", is_super=True)
    with Producer(broker.nameserver, group="shop", credentials=credentials("pam"), trace=True) as producer:
        producer.send(Message("orders", b"1"))
        producer.send(Message("orders-new", b"created by sending"))
        producer.send_batch([Message("orders", b"2"), Message("orders", b"3")])
        for topic in ("payments", "%RETRY%billing", f"%DLQ%{GROUP}"):
            with pytest.raises((NoPermissionError, MQError)):
                producer.send(Message(topic, b"x"))
    with TransactionProducer(
        broker.nameserver,
        group="tx",
        topics="orders",
        credentials=credentials("pam"),
        check=lambda _: TransactionOutcome.COMMIT,
    ) as transactions:
        transactions.send(Message("orders", b"4"), lambda _: TransactionOutcome.COMMIT)
    seen: list[bytes] = []
    done = threading.Event()

    def listen(message: Any) -> None:
        if message.body == b"1" and message.delivery_attempt == 1:
            raise ValueError("once more")
        seen.append(message.body)
        if len(seen) == 4:
            done.set()

    with PushConsumer(
        broker.nameserver, group="billing", credentials=credentials("carl"), topics="orders", listener=listen,
        start="earliest",
    ):  # fmt: skip
        assert done.wait(30), seen
    assert sorted(seen) == [b"1", b"2", b"3", b"4"]
    with Admin(broker.nameserver, credentials=credentials("rick")) as admin:
        assert "orders" in admin.topics.names()
        assert admin.groups.lag("billing")
        assert admin.topics.stats("orders")
        with pytest.raises(NoPermissionError):
            admin.topics.delete("orders")
        with pytest.raises(NoPermissionError):
            admin.brokers.update_config(broker.address, {"longPollingEnable": "true"})
    with (
        PullConsumer(
            broker.nameserver, group="other", credentials=credentials("carl"), topics="orders", start="earliest"
        ) as consumer,
        pytest.raises(NoPermissionError, match="Group:other"),
    ):
        consumer.poll(timeout_ms=30_000)


def test_everything_that_changes_users_is_durable(broker: LoopbackBroker) -> None:
    with Admin(broker.nameserver, credentials=ROOT) as admin:
        admin.access.create_user("dora", secret_of("dora"))
        admin.access.apply_template("dora", "producer", topics=["orders"])
        broker.restart()
        assert [each.username for each in admin.access.users("dor")] == ["dora"]
        assert admin.access.user("dora").password is None
        verdict = admin.access.explain("dora", "Pub", "Topic:orders")
        assert verdict.allowed and verdict.entry == "Allow Pub on Topic:orders"
        admin.access.update_user("dora", enabled=False)
        assert not admin.access.explain("dora", "Pub", "Topic:orders").allowed
        admin.access.update_user("dora", enabled=True)
        admin.access.delete_policy("dora", "Topic:orders")
        assert "no entry" in admin.access.explain("dora", "Pub", "Topic:orders").reason
        admin.access.delete_user("dora")
        with pytest.raises(MQError, match="no user dora"):
            admin.access.user("dora")
