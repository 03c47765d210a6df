"""Messages that visitors send: from a form or from JSON to a message, and one outcome for each of them."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Annotated, Final

import msgspec

from pyromq.aio import Message, SendReceipt
from pyromq.console.desk import Desk
from pyromq.errors import ConfigError, MessageRefusedError, MQError, SendFailedError, printable
from pyromq.model.message import PRIORITY_MAX

COUNT_MAX: Final = 1_000
_AT_ONCE: Final = 32
_DELAY_MS_MAX: Final = 10 * 365 * 86_400_000


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A message to send: ``body`` as text, or ``body_base64``. At most one of the delays.

    Messages with the same ``order_key`` go to the same queue; ``priority`` chooses the queue, larger is more urgent.
    ``count`` sends it that often.
    """

    body: str | None = None
    body_base64: str | None = None
    tags: str = ""
    keys: list[str] = []
    properties: dict[str, str] = {}
    order_key: str = ""
    priority: Annotated[int, msgspec.Meta(ge=0, le=PRIORITY_MAX)] | None = None
    delay_ms: Annotated[int, msgspec.Meta(ge=0, le=_DELAY_MS_MAX)] = 0
    deliver_at_ms: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)] = 0
    delay_level: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 0
    count: Annotated[int, msgspec.Meta(ge=1, le=COUNT_MAX)] = 1

    def message(self, topic: str) -> Message:
        """Make the message of the form. Raises ConfigError, MessageRefusedError, InvalidNameError."""
        return Message(
            topic,
            self.body_bytes(),
            tags=self.tags,
            keys=self.keys,
            properties=self.properties,
            sharding_key=self.order_key,
            priority=self.priority,
            delay_level=self.delay_level,
            delay_ms=self.delay_ms,
            deliver_at_ms=self.deliver_at_ms,
        )

    def body_bytes(self) -> bytes:
        if (self.body is None) == (self.body_base64 is None):
            raise ConfigError("a message has a body: give either body or body_base64")
        if self.body_base64 is None:
            try:
                return (self.body or "").encode()
            except UnicodeEncodeError as error:
                raise MessageRefusedError(f"the body is no text that can be encoded: {error.reason}") from error
        try:
            return base64.b64decode(self.body_base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ConfigError(f"body_base64 is no base64: {error}") from error


class SendOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """``confirmed``: stored; ``unknown``: a response was lost, it may be stored; ``refused``: it is not."""

    outcome: str
    message_id: str = ""
    broker: str = ""
    queue: int = -1
    offset: int = -1
    status: str = ""
    recall_handle: str = ""
    problem: str = ""


class SendReport(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome for each message that was asked for, in order; those after a refusal may be ``not attempted``."""

    topic: str
    confirmed: int
    outcomes: list[SendOutcome]


async def send(desk: Desk, topic: str, new: NewMessage) -> SendReport:
    """Send the messages of a form, each with its outcome. Raises what the first one raises when nothing was sent at
    all.
    """
    message, producer = new.message(topic), await desk.producer()
    await desk.admin.topics.route(topic)  # a typing mistake does not create a topic
    outcomes: list[SendOutcome] = []
    while len(outcomes) < new.count:
        many = min(_AT_ONCE, new.count - len(outcomes))
        found = await asyncio.gather(*(producer.send(message) for _ in range(many)), return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException) and not isinstance(each, MQError):
                raise each
        if isinstance(first := found[0], MQError) and not outcomes and all(isinstance(each, MQError) for each in found):
            raise first
        outcomes += [_outcome(each) for each in found if isinstance(each, SendReceipt | MQError)]
        if any(each.outcome != "confirmed" for each in outcomes):
            break
    left = new.count - len(outcomes)
    outcomes += [SendOutcome(outcome="not attempted", problem="one before it was not confirmed") for _ in range(left)]
    desk.cache.forget(("traffic", topic), ("topic row", topic))
    confirmed = sum(each.outcome == "confirmed" for each in outcomes)
    return SendReport(topic=topic, confirmed=confirmed, outcomes=outcomes)


def _outcome(found: SendReceipt | MQError) -> SendOutcome:
    if isinstance(found, MQError):
        doubt = isinstance(found, SendFailedError) and found.maybe_stored
        return SendOutcome(outcome="unknown" if doubt else "refused", problem=printable(str(found)))
    return SendOutcome(
        outcome="confirmed",
        message_id=found.message_id,
        broker=found.queue.broker,
        queue=found.queue.number,
        offset=found.offset,
        status=found.status.value,
        recall_handle=found.recall_handle or "",
    )
