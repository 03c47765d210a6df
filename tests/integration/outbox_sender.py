"""Senders that die: ``python -m tests.integration.outbox_sender NAMESERVER TOPIC DATABASE``.

One process each, at the same time. Each sends a message whose body is the name of the point where it kills itself.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from pyromq import Message
from pyromq.client.core.transaction import Transaction
from pyromq.outbox import Outbox, OutboxProducer

POINTS = ("prepared", "writing", "committed", "told")
GROUP = "outbox-senders"


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DyingOutbox(Outbox):
    """Dies when a row shall be written, with nothing written."""

    def record(self, connection: Any, transaction: Transaction) -> None:
        die()


def send(nameserver: str, topic: str, database: str, point: str) -> None:
    outbox = DyingOutbox(database) if point == "prepared" else Outbox(database)
    with OutboxProducer(nameserver, group=GROUP, topics=topic, outbox=outbox, confirm=True) as producer:
        if point == "committed":
            producer.producer.inner.finish = die  # type: ignore[assignment, method-assign]
        with producer.transaction(Message(topic, point.encode())) as connection:
            connection.execute("INSERT INTO orders VALUES (?)", (point,))
            if point == "writing":
                die()
        die()


def main(nameserver: str, topic: str, database: str) -> None:
    """Ends with an error unless all were killed."""
    children = []
    for point in POINTS:
        if (child := os.fork()) == 0:
            try:
                send(nameserver, topic, database, point)
            finally:
                os._exit(1)
        children.append(child)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert statuses == [-signal.SIGKILL] * len(POINTS), statuses


if __name__ == "__main__":
    main(*sys.argv[1:])
