"""Keyword arguments of the ways of sending, for type checkers (PEP 692): of a message, and of a topic and a value.

    send(message, timeout=2.5)                            SendArguments
    send("orders", order, keys="42", timeout=2.5)         SendArguments and what a message may have: ValueSendArguments

``timeout_ms`` is for all attempts together, ``timeout`` the same as a timedelta or seconds; None means that of the
producer. ``queue`` or ``selector`` fix the queue.
"""

from __future__ import annotations

from typing import TypedDict

from pyromq.client.producer.pending_sends import SendCallback
from pyromq.client.producer.selectors import QueueSelector
from pyromq.model.queue import QueueId
from pyromq.model.times import Span
from pyromq.typed.messages import MessageOptions


class TimeLimit(TypedDict, total=False):
    """Keyword arguments that limit the time of a request."""

    timeout_ms: int | None
    timeout: Span | None


class ChosenQueue(TypedDict, total=False):
    """Keyword arguments that choose the queue of a single message."""

    queue: QueueId | None
    selector: QueueSelector | None


class SendArguments(TimeLimit, ChosenQueue, total=False):
    """Keyword arguments of ``send`` with a message."""


class NowaitArguments(TimeLimit, ChosenQueue, total=False):
    """Keyword arguments of ``send_nowait`` with a message."""

    callback: SendCallback | None


class BatchArguments(TimeLimit, total=False):
    """Keyword arguments of ``send_batch`` with messages."""

    queue: QueueId | None


class ValueRequestArguments(TimeLimit, MessageOptions, total=False):
    """Keyword arguments of ``request`` with a topic and a value."""


class ValueOnewayArguments(ChosenQueue, MessageOptions, total=False):
    """Keyword arguments of ``send_oneway`` with a topic and a value."""


class ValueSendArguments(SendArguments, MessageOptions, total=False):
    """Keyword arguments of ``send`` with a topic and a value."""


class ValueNowaitArguments(NowaitArguments, MessageOptions, total=False):
    """Keyword arguments of ``send_nowait`` with a topic and a value."""


class ValueBatchArguments(BatchArguments, MessageOptions, total=False):
    """Keyword arguments of ``send_batch`` with a topic and values."""


class TransactionArguments(SendArguments, total=False):
    """Keyword arguments of a transaction with a message; ``check_after_ms`` keeps the broker from checking back
    before.
    """

    check_after_ms: int


class ValueTransactionArguments(TransactionArguments, MessageOptions, total=False):
    """Keyword arguments of a transaction with a topic and a value."""
