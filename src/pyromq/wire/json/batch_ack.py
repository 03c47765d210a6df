"""Body of BATCH_ACK_MESSAGE (200151): many acknowledgements in one request.

    {"acks":[{"b":"CQI=","c":"billing","it":60000,"pt":1700000000000,"q":0,"r":"0","rq":3,"so":100,"t":"orders"}],
     "brokerName":"broker-a"}

``b`` is a set of bits, the lowest byte first, in base64: bit i stands for the message at offset so + i. RocketMQ writes
the short names and reads the long ones, too; so do we.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from pyromq.errors import RemoteProtocolError

OFFSETS_MAX: Final = 256
"""Of one hand-out; a pop gets 32 messages at most."""

_BITS_BYTES_MAX: Final = 1 << 16
_LONG_NAMES: Final = {
    "consumerGroup": "c",
    "topic": "t",
    "retry": "r",
    "startOffset": "so",
    "queueId": "q",
    "reviveQueueId": "rq",
    "popTime": "pt",
    "invisibleTime": "it",
    "bitSet": "b",
}


class BatchAck(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of one hand-out in one queue."""

    group: str = msgspec.field(name="c")
    topic: str = msgspec.field(name="t")
    kind: str = msgspec.field(name="r", default="0")
    start: int = msgspec.field(name="so")
    queue_id: int = msgspec.field(name="q")
    number: int = msgspec.field(name="rq")
    popped_ms: int = msgspec.field(name="pt")
    invisible_ms: int = msgspec.field(name="it", default=0)
    bits: str = msgspec.field(name="b")

    @property
    def offsets(self) -> list[int]:
        """Offsets that the bits stand for. Raises RemoteProtocolError."""
        try:
            number = int.from_bytes(b64decode(self.bits, validate=True)[:_BITS_BYTES_MAX], "little")
        except ValueError as error:
            raise RemoteProtocolError(f"the bit set of a batch of acknowledgements is not base64: {error}") from error
        if (count := number.bit_count()) > OFFSETS_MAX:
            raise RemoteProtocolError(
                f"{count} messages in one hand-out of a batch: at most {OFFSETS_MAX} are possible"
            )
        found = []
        while number:
            lowest = number & -number
            found.append(self.start + lowest.bit_length() - 1)
            number ^= lowest
        return found


class _Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    acks: list[dict[str, str | int | None]] = []
    broker_name: str | None = None


class _Acks(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    acks: list[BatchAck] = []
    broker_name: str | None = None


_decode = msgspec.json.Decoder(_Acks).decode


def decode_batch_ack(body: bytes) -> list[BatchAck]:
    """Decode acknowledgements of several receipts. Raises RemoteProtocolError."""
    try:
        return _decode(body).acks
    except msgspec.MsgspecError:
        return _decode_long(body)


def _decode_long(body: bytes) -> list[BatchAck]:
    try:
        found = msgspec.json.decode(body, type=_Body)
        short = [{_LONG_NAMES.get(name, name): value for name, value in each.items()} for each in found.acks]
        return msgspec.convert(short, list[BatchAck], strict=False)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"the batch of acknowledgements cannot be read: {error}") from error


def encode_batch_ack(acks: Iterable[BatchAck], broker: str) -> bytes:
    return msgspec.json.encode(_Acks(acks=list(acks), broker_name=broker))


def bits_of(start: int, offsets: Collection[int]) -> str:
    """The set of these offsets."""
    number = 0
    for offset in offsets:
        number |= 1 << (offset - start)
    return b64encode(number.to_bytes((number.bit_length() + 7) // 8, "little")).decode()
