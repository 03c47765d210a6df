"""Messages and rows of your database: both, or neither.

    outbox = Outbox("orders.db")                                   # or a SQLAlchemy Engine
    with OutboxProducer("10.0.0.1:9876", group="shop", topics="orders", outbox=outbox) as producer:
        with producer.transaction(Message("orders", b"42")) as connection:
            connection.execute("INSERT INTO orders VALUES (42)")   # committed with the block

The message is prepared first. Its transaction id becomes a row of the outbox table, in the same database transaction as
your own rows, so a check-back, after whatever crash, reads the outcome there. ``Outbox`` alone goes with a
``TransactionProducer`` where you handle the database transaction yourself.
"""

from __future__ import annotations

from pyromq.outbox.outbox import Outbox, OverdueError
from pyromq.outbox.producer import OutboxProducer

__all__ = ["Outbox", "OutboxProducer", "OverdueError"]
