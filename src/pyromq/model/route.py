"""Where a topic lives: its brokers, their addresses, the queues each of them keeps.

A route is replaced whole, never edited. Field names are RocketMQ's, in snake case. The number of a broker's queues
comes from the network, so it is checked before a list of that length is made.
"""

from __future__ import annotations

import msgspec

from pyromq.errors import RemoteProtocolError
from pyromq.model.queue import QueueId
from pyromq.model.topic import Perm

MASTER_ID = 0
QUEUE_NUMS_MAX = 65_536  # per topic and broker; far above what is used, far below what would hurt


class InvalidRouteError(RemoteProtocolError):
    """A route that names an absurd number of queues, or an ordered topic's configuration that cannot be read."""


class QueueData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The queues of one topic on one broker."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int = 0

    @property
    def readable(self) -> bool:
        return bool(self.perm & Perm.READ)

    @property
    def writable(self) -> bool:
        return bool(self.perm & Perm.WRITE)


class BrokerData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One broker: a master (id 0) and its replicas, each with ``ip:port``."""

    cluster: str
    broker_name: str
    broker_addrs: dict[int, str]
    zone_name: str | None = None
    enable_acting_master: bool = False

    @property
    def master_addr(self) -> str | None:
        return self.broker_addrs.get(MASTER_ID)

    def readable_addr(self) -> str | None:
        """The master, or else the replica with the lowest id."""
        return self.broker_addrs[min(self.broker_addrs)] if self.broker_addrs else None


class TopicRoute(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a name server responds about one topic (RocketMQ: TopicRouteData)."""

    broker_datas: tuple[BrokerData, ...] = ()
    queue_datas: tuple[QueueData, ...] = ()
    order_topic_conf: str | None = None
    filter_server_table: dict[str, list[str]] = {}

    def broker(self, name: str) -> BrokerData | None:
        return next((broker for broker in self.broker_datas if broker.broker_name == name), None)

    def publishable_queues(self, topic: str) -> list[QueueId]:
        """Where a producer may send, sorted.

        The queues an ordered topic's configuration lists; without one, the writable queues of brokers with a master.
        Raises InvalidRouteError.
        """
        if self.order_topic_conf:
            return _queues(topic, parse_order_conf(self.order_topic_conf))
        led = {broker.broker_name for broker in self.broker_datas if broker.master_addr}
        shares = [(data.broker_name, data.write_queue_nums) for data in self.queue_datas if data.writable]
        return _queues(topic, [share for share in shares if share[0] in led])

    def readable_queues(self, topic: str) -> list[QueueId]:
        """What the consumers of a group share among them, sorted; brokers without master included.

        Raises InvalidRouteError.
        """
        return _queues(topic, [(data.broker_name, data.read_queue_nums) for data in self.queue_datas if data.readable])


def parse_order_conf(text: str) -> list[tuple[str, int]]:
    """``broker-a:4;broker-b:4`` as pairs of broker and number of queues; raises InvalidRouteError."""
    return [_order_share(piece) for piece in text.split(";") if piece.strip()]


def _order_share(piece: str) -> tuple[str, int]:
    broker, colon, number = piece.strip().rpartition(":")
    if not (broker and colon and number.isascii() and number.isdigit() and len(number) <= 9):
        raise InvalidRouteError(f"the configuration of an ordered topic has {piece[:80]!r} where broker:queues belongs")
    return broker, int(number)


def _queues(topic: str, shares: list[tuple[str, int]]) -> list[QueueId]:
    for broker, number in shares:
        if not 0 <= number <= QUEUE_NUMS_MAX:
            raise InvalidRouteError(f"a route names {number} queues of topic {topic!r} on broker {broker!r}")
    return sorted({QueueId(topic, broker, queue) for broker, number in shares for queue in range(number)})
