"""Consume once what is delivered more than once.

marks = Marks("billing.marks.db", scope="billing")           # or a SQLAlchemy Engine
consumer = PushConsumer("10.0.0.1:9876", group="billing", listener=once(bill, marks), topics="orders")

once                 mark after the effect: a crash in between repeats the effect, nothing else does
once_for_batch       the same for listeners of several messages
once_in_transaction  effect and mark in one database transaction: never repeated, never lost
"""

from __future__ import annotations

from pyromq.idempotent.keys import message_key
from pyromq.idempotent.marks import InProgressError, Marks
from pyromq.idempotent.once import once, once_for_batch, once_in_transaction

__all__ = ["InProgressError", "Marks", "message_key", "once", "once_for_batch", "once_in_transaction"]
