"""What brokers ask of a client."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from pyromq.client.core.callbacks import Callbacks, reply_message
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.roles import ClientRole, ProducerRole
from pyromq.client.core.tasks import TaskOwner
from pyromq.client.producer.pending_replies import PendingReplies
from pyromq.testing import ManualClock
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.command import Command, decode_command
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.headers.callback import CheckTransactionHeader, PushReplyHeader
from pyromq.wire.headers.shared import (
    ConsumeDirectlyHeader,
    ConsumerGroupHeader,
    ConsumerRunningInfoHeader,
    ResetOffsetHeader,
    TopicGroupHeader,
)
from pyromq.wire.json import bodies
from pyromq.wire.received import Received
from pyromq.wire.record import Draft, encode_record
from tests.unit.client.core.doubles import Consumer, Q


class Sender(ProducerRole):
    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.checked: list[str] = []
        self.replies = PendingReplies(Random(1))

    def check_transaction(self, message: ReceivedMessage, header: Any, connection: Any) -> None:
        self.checked.append(message.topic)

    def reply_arrived(self, message: ReceivedMessage) -> bool:
        return self.replies.arrived(message)


class Peer:
    """Stands for a connection; keeps what is sent."""

    remote_text = "broker"

    def __init__(self) -> None:
        self.sent: list[Command] = []

    def send(self, frame: bytes) -> None:
        self.sent += [decode_command(each) for each in FrameDecoder().feed(frame)]


def record(body: bytes = b"x", **properties: str) -> bytes:
    raw = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
    draft = Draft(topic="t", queue_id=0, body=body, properties=raw)
    return encode_record(draft, offset=0, position=0, stored_ms=1, store_host=b"\x7f\0\0\1\0\0\x2a\x9f")


def ask(roles: list[ClientRole], code: Code, header: Any, body: bytes = b"") -> Command:
    """The response of a client with these roles."""

    async def main() -> Command:
        tasks, peer = TaskOwner("test"), Peer()
        callbacks = Callbacks(lambda: roles, tasks, ManualClock(), "")
        callbacks.on_requests(peer, [Received(int(code), header, 9, body=body)])  # type: ignore[arg-type]
        await tasks.drained()
        (response,) = peer.sent
        assert response.correlation_id == 9
        return response

    return asyncio.run(main())


def push(correlation_id: str) -> PushReplyHeader:
    return PushReplyHeader(
        producer_group="g",
        topic="C_REPLY_TOPIC",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=5,
        flag=0,
        properties=f"CORRELATION_ID\x01{correlation_id}\x02",
        born_host="10.0.0.1:5",
        store_host="/10.0.0.2:10911",
        store_timestamp=6,
    )


def test_consumers_are_asked_by_group() -> None:
    mine, other = Consumer("g"), Consumer("h")
    roles: list[ClientRole] = [other, mine]
    assert ask(roles, Code.NOTIFY_CONSUMER_IDS_CHANGED, ConsumerGroupHeader(consumer_group="g")).code == 0
    header = ResetOffsetHeader(topic="t", group="g", timestamp=-1)
    ask(roles, Code.RESET_CONSUMER_CLIENT_OFFSET, header, bodies.encode(bodies.ResetOffsets(offset_table={Q: 3})))
    assert (mine.calls, other.calls) == (["members", ("t", {Q: 3})], [])
    response = ask(roles, Code.GET_CONSUMER_STATUS_FROM_CLIENT, TopicGroupHeader(topic="t", group="g"))
    assert bodies.decode(response.body, bodies.ClientOffsets).message_queue_table == {Q: 5}
    info = ConsumerRunningInfoHeader(consumer_group="g", client_id="c")
    assert ask(roles, Code.GET_CONSUMER_RUNNING_INFO, info).body == b'{"jstack":"no"}'
    info = ConsumerRunningInfoHeader(consumer_group="absent", client_id="c")
    response = ask(roles, Code.GET_CONSUMER_RUNNING_INFO, info)
    assert response.code == 1 and "no consumer in group 'absent'" in (response.remark or "")


def test_one_message_is_consumed_at_an_operators_wish() -> None:
    header = ConsumeDirectlyHeader(consumer_group="g", broker_name="b")
    assert ask([Consumer("g")], Code.CONSUME_MESSAGE_DIRECTLY, header, record()).body.startswith(b'{"consumeResult"')
    response = ask([Consumer("g")], Code.CONSUME_MESSAGE_DIRECTLY, header, record(b"bad"))
    assert (response.code, response.remark) == (1, "RuntimeError: listener failed")
    assert ask([Consumer("g")], Code.CONSUME_MESSAGE_DIRECTLY, header, b"").code == 1


def test_a_transaction_is_checked_with_the_producer_that_began_it() -> None:
    mine, other = Sender("p"), Sender("q")
    header = CheckTransactionHeader(tran_state_table_offset=1, commit_log_offset=2)
    ask([other, mine], Code.CHECK_TRANSACTION_STATE, header, record(PGROUP="p"))
    assert (mine.checked, other.checked) == (["t"], [])


def test_a_pushed_reply_looks_like_any_other_message() -> None:
    reply = reply_message(push("c1"), b"pong", 77)
    assert (reply.body, reply.topic, reply.born_ms, reply.stored_ms) == (b"pong", "C_REPLY_TOPIC", 5, 6)
    assert reply.properties == {"CORRELATION_ID": "c1", "ARRIVE_TIME": "77"}
    assert str(reply.born_host) == "10.0.0.1:5"
