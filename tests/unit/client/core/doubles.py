"""Doubles for the parts of a client: a consumer, a link, a route."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.roles import ConsumerRole
from pyromq.errors import ConnectFailedError
from pyromq.model.queue import QueueId
from pyromq.model.route import BrokerData, QueueData, TopicRoute
from pyromq.net import Address
from pyromq.wire.headers.shared import (
    ConsumeDirectlyHeader,
    ConsumerRunningInfoHeader,
    ResetOffsetHeader,
)
from pyromq.wire.json.heartbeat import ConsumerData, Subscription
from pyromq.wire.json.route import encode_route
from pyromq.wire.received import Received

Q = QueueId("t", "broker-a", 0)


class Consumer(ConsumerRole):
    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.calls: list[Any] = []

    def heartbeat_data(self) -> ConsumerData:
        return ConsumerData(group_name=self.group, subscription_data_set=(Subscription(topic="t"),))

    def members_changed(self) -> None:
        self.calls.append("members")

    def reset_offsets(self, header: ResetOffsetHeader, offsets: Mapping[QueueId, int]) -> None:
        self.calls.append((header.topic, dict(offsets)))

    def offsets(self, topic: str) -> Mapping[QueueId, int]:
        return {Q: 5}

    def running_info(self, header: ConsumerRunningInfoHeader) -> bytes:
        return b'{"jstack":"no"}'

    async def consume_directly(self, header: ConsumeDirectlyHeader, message: ReceivedMessage) -> bytes:
        if message.body == b"bad":
            raise RuntimeError("listener failed")
        return b'{"consumeResult":"CR_SUCCESS"}'


class FakeLink:
    """Fails, or answers with a route."""

    ready = None

    def __init__(self, address: str, *, fails: bool = False) -> None:
        self.address, self.fails, self.asked = Address.parse(address), fails, 0
        self.timeouts: list[int] = []
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True

    async def request(self, code: int, header: Any, body: bytes, *, timeout_ms: int) -> Received[Any]:
        self.asked += 1
        self.timeouts.append(timeout_ms)
        if self.fails:
            raise ConnectFailedError("refused", peer=str(self.address))
        return Received(0, {}, body=encode_route(route(a="1:1"), strict=True))


def route(**addresses: str) -> TopicRoute:
    brokers = [BrokerData(cluster="C", broker_name=name, broker_addrs={0: at}) for name, at in addresses.items()]
    queues = [QueueData(broker_name=name, read_queue_nums=4, write_queue_nums=4, perm=6) for name in addresses]
    return TopicRoute(broker_datas=tuple(brokers), queue_datas=tuple(queues))
