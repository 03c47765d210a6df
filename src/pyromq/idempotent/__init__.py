"""Consume once what is delivered more than once.

    marks = Marks("billing.marks.db", scope="billing")           # or a SQLAlchemy Engine
    consumer = PushConsumer(group="billing", listener=once(bill, marks))

    once                 mark after the effect: a crash in between repeats the effect, nothing else does
    once_for_batch       the same for listeners of several messages
    once_in_transaction  effect and mark in one database transaction: never repeated, never lost

A mark is a row of a database: the application's own, or a file for marks alone.
"""

from __future__ import annotations

from pyromq.idempotent.keys import message_key
from pyromq.idempotent.marks import InProgressError, Marks
from pyromq.idempotent.once import once, once_for_batch, once_in_transaction

__all__ = ["InProgressError", "Marks", "message_key", "once", "once_for_batch", "once_in_transaction"]
