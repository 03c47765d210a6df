"""Attributes of spans and metrics, by OpenTelemetry's semantic conventions for messaging and for RocketMQ.

``messaging.rocketmq.message.delivery_attempt`` is not among them; it is named after those of other systems.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyromq.aio import Message, ReceivedMessage, SendReceipt
from pyromq.errors import MQError
from pyromq.hooks import Sending
from pyromq.model import property_names as names
from pyromq.wire.message_id import Host, decode_offset_id

Attributes = dict[str, Any]

SYSTEM: Final = "messaging.system"
ROCKETMQ: Final = "rocketmq"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
GROUP: Final = "messaging.consumer.group.name"
BATCH_COUNT: Final = "messaging.batch.message_count"
MESSAGE_ID: Final = "messaging.message.id"
CONVERSATION_ID: Final = "messaging.message.conversation_id"
NAMESPACE: Final = "messaging.rocketmq.namespace"
KEYS: Final = "messaging.rocketmq.message.keys"
TAG: Final = "messaging.rocketmq.message.tag"
TYPE: Final = "messaging.rocketmq.message.type"
ORDER_KEY: Final = "messaging.rocketmq.message.group"
DELAY_LEVEL: Final = "messaging.rocketmq.message.delay_time_level"
DELIVERY_TIMESTAMP: Final = "messaging.rocketmq.message.delivery_timestamp"
DELIVERY_ATTEMPT: Final = "messaging.rocketmq.message.delivery_attempt"
SERVER: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR: Final = "error.type"

METRIC_ATTRIBUTES: Final = (SYSTEM, OPERATION_NAME, OPERATION_TYPE, DESTINATION, GROUP, SERVER, SERVER_PORT, ERROR)


def of_operation(name: str, kind: str, topic: str, count: int | None) -> Attributes:
    """What every span has; ``count`` None: the operation is about one message by its nature."""
    found: Attributes = {SYSTEM: ROCKETMQ, OPERATION_NAME: name, OPERATION_TYPE: kind, DESTINATION: topic}
    return found if count is None else {**found, BATCH_COUNT: count}


def of_message(message: Message, *, is_prepared: bool = False) -> Attributes:
    """Attributes of a message that is sent."""
    found: Attributes = {TYPE: _type(message, is_prepared)}
    if message.keys:
        found[KEYS] = message.keys
    if message.tags:
        found[TAG] = message.tags
    if message.sharding_key:
        found[ORDER_KEY] = message.sharding_key
    if message.delay_level:
        found[DELAY_LEVEL] = message.delay_level
    if message.deliver_at_ms:
        found[DELIVERY_TIMESTAMP] = message.deliver_at_ms
    return found


def _type(message: Message, is_prepared: bool) -> str:
    if is_prepared:
        return "transaction"
    if message.delay_level or message.delay_ms or message.deliver_at_ms:
        return "delay"
    return "fifo" if message.sharding_key else "normal"


def of_receipts(receipts: Sequence[SendReceipt], send: Sending) -> Attributes:
    """What a broker said; ids are for single messages."""
    if not receipts:
        return {}
    found: Attributes = {}
    if len(send.messages) == 1:
        found = {MESSAGE_ID: receipts[0].message_id, PARTITION: str(receipts[0].queue.number)}
    try:
        host, _ = decode_offset_id(receipts[0].offset_message_id.partition(",")[0])
    except MQError:  # a proxy may give ids of another kind
        return found
    return {**found, **of_host(host)}


def of_received(messages: Sequence[ReceivedMessage]) -> Attributes:
    """What one message says of itself; of several, what they have in common."""
    first = messages[0]
    found: Attributes = {PARTITION: str(first.queue_id), **of_host(first.store_host)}
    if first.namespace:
        found[NAMESPACE] = first.namespace
    if len(messages) > 1:
        return found
    found[MESSAGE_ID] = first.message_id
    found[DELIVERY_ATTEMPT] = first.delivery_attempt + 1
    if keys := first.keys:
        found[KEYS] = keys
    if tag := first.tags:
        found[TAG] = tag
    if order_key := first.sharding_key:
        found[ORDER_KEY] = order_key
    if conversation := first.get(names.CORRELATION_ID):
        found[CONVERSATION_ID] = conversation
    return found


def of_host(host: Host) -> Attributes:
    address, _, port = str(host).rpartition(":")
    return {SERVER: address.strip("[]"), SERVER_PORT: int(port)}


def for_metrics(attributes: Attributes) -> Attributes:
    """Few values each: ids, keys and queues would make a time series of every message."""
    return {name: attributes[name] for name in METRIC_ATTRIBUTES if name in attributes}
