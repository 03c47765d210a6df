"""10, 11 and 12 mean stored. With 11 nobody else can be master: whoever sends goes on, and nothing is there twice.

With 10 and 12 the next master may lack it: a failed message is let go of when another step has kept it (decision 229).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pyromq import Message, Producer, PushConsumer, ReceivedMessage, TransactionOutcome, TransactionProducer
from pyromq.aio import Transaction
from pyromq.broker.base.settings import BrokerSettings
from pyromq.errors import DeadLetterError
from pyromq.model.message import SendStatus
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.testing import LoopbackBroker
from pyromq.testing.loopback import SMALL_FILES_IN_MEMORY
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.producer import SendResponseHeader
from pyromq.wire.message_id import decode_offset_id
from tests.integration.quick_consumer import QUEUE, quick_consumer
from tests.integration.scripted_queues import scripted_queues
from tests.integration.test_broker import running, send_header
from tests.integration.test_send_back import send_back, with_group
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

ALONE_CODE = ResponseCode.SLAVE_NOT_AVAILABLE
UNSURE = [ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT]
ALONE = ReplicationSettings(role=Role.SYNC_MASTER)  # a sync master, and no replica anywhere
ATTEMPTS = 12
COMMIT = TransactionOutcome.COMMIT


def a_lonely_sync_master() -> LoopbackBroker:
    settings = BrokerSettings(store=SMALL_FILES_IN_MEMORY, replication=replace(ALONE, port=0))
    return LoopbackBroker(settings, virtual_time=True)


def test_a_loopback_master_has_a_port_for_replicas_that_no_other_program_may_have_by_then() -> None:
    """Not the one next to its own port: systems give neighbours to whoever asks."""
    with a_lonely_sync_master() as broker:
        assert broker._settings.replication.port not in (0, broker.broker.address.port + 1)


def test_a_sync_master_without_replicas_delivers_a_failing_message_once_per_attempt() -> None:
    delivered: Counter[int] = Counter()

    def fail(message: ReceivedMessage) -> None:
        delivered[message.delivery_attempt] += 1
        raise ValueError("never")

    with a_lonely_sync_master() as broker, Producer(broker.nameserver, group="shop") as producer:
        receipt = producer.send(Message("orders", b"42"))
        assert receipt.status is SendStatus.SLAVE_NOT_AVAILABLE
        with PushConsumer(broker.nameserver, group="billing", topics="orders", listener=fail, start="earliest"):
            broker.advance(hours=1)
            assert delivered == Counter(dict.fromkeys(range(ATTEMPTS + 1), 1))


async def test_a_sync_master_without_replicas_answers_a_send_back_with_success(tmp_path: Path) -> None:
    async with running(tmp_path, replication=replace(ALONE, port=0)) as (broker, client):
        with_group(broker)
        sent = await client.ask(Code.SEND_MESSAGE_V2, send_header(), b"order")
        assert sent.code == ResponseCode.SLAVE_NOT_AVAILABLE
        position = decode_offset_id(sent.header_as(SendResponseHeader).msg_id)[1]
        assert (await send_back(client, position)).code == ResponseCode.SUCCESS


def test_a_transaction_is_prepared_and_ended_at_a_sync_master_without_replicas() -> None:
    executed: list[Transaction] = []

    def execute(transaction: Transaction) -> TransactionOutcome:
        executed.append(transaction)
        return COMMIT

    with (
        a_lonely_sync_master() as broker,
        TransactionProducer(
            broker.nameserver, group="tx", topics="orders", check=lambda message: None, confirm=True
        ) as producer,
    ):
        receipt = producer.send(Message("orders", b"42"), execute)
        assert executed and receipt.prepared.status is SendStatus.SLAVE_NOT_AVAILABLE
        assert (receipt.outcome, receipt.confirmed, receipt.unreported) == (COMMIT, True, None)


async def fail_always(message: ReceivedMessage) -> None:
    raise ValueError("never")


async def give_up(message: ReceivedMessage) -> None:
    raise DeadLetterError("unusable")


async def test_a_send_back_that_only_its_master_has_is_not_sent_again_as_a_copy() -> None:
    async with scripted_queues("billing") as broker:
        broker.codes[Code.CONSUMER_SEND_MSG_BACK] = ALONE_CODE
        broker.put(b"0")
        async with quick_consumer(broker, fail_always):
            await until(lambda: broker.committed[QUEUE] == 1, "the message is let go of")
        assert len(broker.asked[Code.CONSUMER_SEND_MSG_BACK]) == 1
        assert not broker.asked[Code.SEND_MESSAGE_V2]


async def test_a_dead_letter_that_only_its_master_has_is_sent_once() -> None:
    async with scripted_queues("billing") as broker:
        broker.codes[Code.SEND_MESSAGE_V2] = ALONE_CODE
        broker.put(b"0")
        async with quick_consumer(broker, give_up):
            await until(lambda: broker.committed[QUEUE] == 1, "the message is let go of")
        assert len(broker.asked[Code.SEND_MESSAGE_V2]) == 1
        assert not broker.asked[Code.CONSUMER_SEND_MSG_BACK]


@pytest.mark.parametrize("code", UNSURE)
@pytest.mark.parametrize(
    ("listener", "first", "then"),
    [
        (fail_always, Code.CONSUMER_SEND_MSG_BACK, Code.SEND_MESSAGE_V2),
        (give_up, Code.SEND_MESSAGE_V2, Code.CONSUMER_SEND_MSG_BACK),
    ],
    ids=["send-back", "dead letter"],
)
async def test_what_the_next_master_may_lack_is_kept_in_another_way_before_it_is_let_go_of(
    code: ResponseCode, listener: Callable[[ReceivedMessage], Awaitable[None]], first: Code, then: Code
) -> None:
    async with scripted_queues("billing") as broker:
        broker.codes[first] = code
        broker.put(b"0")
        async with quick_consumer(broker, listener):
            await until(lambda: broker.committed[QUEUE] == 1, "the message is let go of")
        assert (len(broker.asked[first]), len(broker.asked[then])) == (1, 1)
