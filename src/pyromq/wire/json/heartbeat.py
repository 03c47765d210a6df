"""Heartbeats of clients, and the connection lists that tools ask for.

Clients differ. Java and ali-ons send ``codeSet`` as numbers, Go as text; ali-ons leaves ``expressionType`` out, others
send it empty: both mean TAG. Enums come by name or by their place in Java's declaration, which ours repeat. Fields
younger than the client are absent. Sets have no order: ours are written sorted.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import msgspec

from pyromq.wire.json import java_json
from pyromq.wire.json.java_json import Long

TAG_EXPRESSION: Final = "TAG"
SQL_EXPRESSION: Final = "SQL92"


class ConsumeType(Enum):
    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(Enum):
    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(Enum):
    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


_ENUMS: Final[dict[str, type[Enum]]] = {
    "consumeType": ConsumeType,
    "messageModel": MessageModel,
    "consumeFromWhere": ConsumeFromWhere,
}


class Subscription(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a group wants of a topic (RocketMQ: SubscriptionData); a larger version is the newer one."""

    topic: str
    sub_string: str = "*"
    sub_version: Long = 0
    expression_type: str = TAG_EXPRESSION
    tags_set: frozenset[str] = frozenset()
    code_set: frozenset[Long] = frozenset()
    class_filter_mode: bool = False

    def __post_init__(self) -> None:
        if not self.expression_type:
            msgspec.structs.force_setattr(self, "expression_type", TAG_EXPRESSION)


class ConsumerData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One group that the client consumes in."""

    group_name: str
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    subscription_data_set: tuple[Subscription, ...] = ()
    unit_mode: bool = False


class ProducerData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    group_name: str


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Heartbeat of a client (RocketMQ: HeartbeatData)."""

    client_id: str = msgspec.field(name="clientID")
    producer_data_set: tuple[ProducerData, ...] = ()
    consumer_data_set: tuple[ConsumerData, ...] = ()
    heartbeat_fingerprint: int = 0
    without_sub: bool = False


class CheckClient(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Asks whether the broker can serve a subscription."""

    client_id: str
    group: str
    subscription_data: Subscription


class ClientConnection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    client_id: str
    client_addr: str
    language: str
    version: int


class ProducerConnections(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The clients of a producer group."""

    connection_set: tuple[ClientConnection, ...] = ()


class ConsumerConnections(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The clients of a consumer group, and what they agreed on; subscriptions by topic."""

    connection_set: tuple[ClientConnection, ...] = ()
    subscription_table: dict[str, Subscription] = {}
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    disagreeing_client_ids: tuple[str, ...] | None = None  # ours, Java skips it: members whose subscription differs

    @property
    def is_broadcast(self) -> bool:
        return self.message_model is MessageModel.BROADCASTING


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    return java_json.dumps(heartbeat)


def decode_heartbeat(body: bytes) -> Heartbeat:
    """What any client sends; raises RemoteProtocolError."""
    value = java_json.parse(body)
    if isinstance(value, dict) and isinstance(consumers := value.get("consumerDataSet"), list):
        value["consumerDataSet"] = [_with_enum_names(consumer) for consumer in consumers]
    return java_json.convert(value, Heartbeat, nulls=java_json.has_nulls(body))


def decode_consumer_connections(body: bytes) -> ConsumerConnections:
    """Decode the members of a group with their subscriptions. Raises RemoteProtocolError."""
    return java_json.convert(_with_enum_names(java_json.parse(body)), ConsumerConnections)


def _with_enum_names(fields: Any) -> Any:
    if not isinstance(fields, dict):
        return fields
    return {name: _enum_name(_ENUMS[name], value) if name in _ENUMS else value for name, value in fields.items()}


def _enum_name(enum: type[Enum], value: Any) -> Any:
    members = list(enum)
    return members[value].name if type(value) is int and 0 <= value < len(members) else value
