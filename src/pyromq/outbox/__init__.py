"""Messages and rows of your database: both, or neither; and messages that wait there until a broker can take them.

    outbox = Outbox("orders.db")                                   # or postgresql://…, or a SQLAlchemy Engine
    with ForwardingProducer("10.0.0.1:9876", group="shop", outbox=outbox) as producer:
        with outbox.begin() as box:                                # or begin(session); async with, too
            box.connection.execute("INSERT INTO orders VALUES (42)")
            box.add(Message("orders", b"42"), Message("reminders", b"42", delay_ms=3_600_000))
        producer.send(Message("clicks", b"7"))                     # kept and sent later while brokers are down

``begin`` writes messages down with your rows, and a ``ForwardingProducer`` of any process sends them after the commit.

    with OutboxProducer("10.0.0.1:9876", group="shop", topics="orders", outbox=outbox) as producer:
        with producer.transaction(Message("orders", b"42")) as connection:
            connection.execute("INSERT INTO orders VALUES (42)")   # committed with the block

Here the message is prepared at a broker first. Its transaction id becomes a row of the outbox table, in the same
database transaction as your own rows, so a check-back, after whatever crash, reads the outcome there. ``Outbox`` alone
goes with a ``TransactionProducer`` where you handle the database transaction yourself.
"""

from __future__ import annotations

from pyromq.outbox.box import Box
from pyromq.outbox.forwarding_producer import (
    AsyncForwardingProducer,
    ForwardingCounts,
    ForwardingProducer,
    KeptReceipt,
)
from pyromq.outbox.kept import KeptMessage, OutboxFullError
from pyromq.outbox.outbox import Outbox, OverdueError
from pyromq.outbox.producer import OutboxProducer

__all__ = [
    "AsyncForwardingProducer",
    "Box",
    "ForwardingCounts",
    "ForwardingProducer",
    "KeptMessage",
    "KeptReceipt",
    "Outbox",
    "OutboxFullError",
    "OutboxProducer",
    "OverdueError",
]
