"""A simple consumer over gRPC: it receives, acknowledges and releases, and goes on at another broker when one fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyromq.errors import MQError
from pyromq.wire.grpc.codes import StatusCode
from pyromq.wire.grpc.definitions import (
    FilterExpression,
    GrpcMessage,
    MessageQueue,
    ProtoTime,
    Resource,
    Status,
    SystemProperties,
)
from pyromq.wire.grpc.services import (
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
)
from tests.grpc.link import GrpcLink, open_link

FAILURES: Final = (OSError, TimeoutError, MQError)
"""What any call may raise: then nobody knows what became of it, unless it is a ReceiptRefusedError."""
_CONNECT_S: Final = 3.0
_ANSWER_S: Final = 5.0
_NOT_GOOD: Final = (StatusCode.INVALID_RECEIPT_HANDLE, StatusCode.MESSAGE_NOT_FOUND)


class GrpcRefusedError(MQError):
    """The broker answered with a status that is no success."""


class ReceiptRefusedError(GrpcRefusedError):
    """The message is not this consumer's any more."""


class GrpcConsumer:
    """One client id; one link at a time, to the first address until that fails."""

    def __init__(self, addresses: Sequence[tuple[str, int]], client_id: str, group: str, topic: str) -> None:
        self._addresses = list(addresses)
        self._client_id = client_id
        self._group = Resource(name=group)
        self._topic = Resource(name=topic)
        self._link: GrpcLink | None = None

    async def link(self) -> GrpcLink:
        """The link that there is, or a new one. Raises OSError, TimeoutError."""
        if self._link is None or not self._link.is_open:
            self._link = await open_link(*self._addresses[0], self._client_id, timeout_s=_CONNECT_S)
        return self._link

    def leave(self) -> None:
        """Somebody else may be the master."""
        if self._link is not None:
            self._link.close()
            self._link = None
        self._addresses.append(self._addresses.pop(0))

    async def receive(self, count: int, *, wait_s: float, invisible_s: float) -> list[GrpcMessage]:
        """Messages; none when none came. Raises one of ``FAILURES``."""
        request = ReceiveMessageRequest(
            group=self._group,
            message_queue=MessageQueue(topic=self._topic),
            filter_expression=FilterExpression(kind=1, expression="*"),
            batch_size=count,
            invisible_duration=_time(invisible_s),
            long_polling_timeout=_time(wait_s),
        )
        link = await self.link()
        parts = await link.call("ReceiveMessage", request, ReceiveMessageResponse, timeout_s=wait_s + _ANSWER_S)
        found = [each.message for each in parts if each.message is not None]
        status = next((each.status for each in parts if each.status is not None), None)
        if not found and status is not None and status.code != StatusCode.MESSAGE_NOT_FOUND:
            _check(status)
        return found

    async def ack(self, message: GrpcMessage) -> None:
        """Returns when the broker has confirmed it. Raises one of ``FAILURES``."""
        facts = facts_of(message)
        entry = AckMessageEntry(message_id=facts.message_id, receipt_handle=facts.receipt_handle or "")
        request = AckMessageRequest(group=self._group, topic=self._topic, entries=[entry])
        link = await self.link()
        (response,) = await link.call("AckMessage", request, AckMessageResponse, timeout_s=_ANSWER_S)
        _check(response.entries[0].status if response.entries else response.status)

    async def release(self, message: GrpcMessage, *, invisible_s: float) -> None:
        """Others may have it after that time. Raises one of ``FAILURES``."""
        facts = facts_of(message)
        request = ChangeInvisibleDurationRequest(
            group=self._group,
            topic=self._topic,
            receipt_handle=facts.receipt_handle or "",
            message_id=facts.message_id,
            invisible_duration=_time(invisible_s),
        )
        link = await self.link()
        (response,) = await link.call(
            "ChangeInvisibleDuration", request, ChangeInvisibleDurationResponse, timeout_s=_ANSWER_S
        )
        _check(response.status)


def facts_of(message: GrpcMessage) -> SystemProperties:
    assert message.system_properties is not None
    return message.system_properties


def popped_ms(receipt: str) -> int:
    """When it was handed out, by the broker's clock: the second word of a receipt of either protocol."""
    return int(receipt.split(" ")[1])


def _check(status: Status | None) -> None:
    if status is None or status.code == StatusCode.OK:
        return
    kind = ReceiptRefusedError if status.code in _NOT_GOOD else GrpcRefusedError
    raise kind(f"{status.code}: {status.message}")


def _time(span_s: float) -> ProtoTime:
    return ProtoTime(seconds=int(span_s), nanos=round(span_s % 1 * 1e9))
