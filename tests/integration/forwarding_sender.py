"""A sender that dies between keeping and forwarding: ``python -m … NAMESERVER TOPIC DATABASE POINT``.

A body that was acknowledged to the caller (a receipt came back, or a block ended) is printed; then
the process kills itself at its point.
"""

from __future__ import annotations

import os
import signal
import sys

from pyromq import Message
from pyromq.outbox import ForwardingProducer, KeptReceipt, Outbox

POINTS = ("kept", "begun", "sent")
GROUP = "forwarding-senders"


def die(*_: object) -> None:
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def send(nameserver: str, topic: str, database: str, point: str) -> None:
    outbox = Outbox(database)
    if point == "sent":
        outbox.kept.forget = die  # type: ignore[assignment]  # a broker has confirmed, the row is still there
    unreachable = "127.0.0.1:1"
    with ForwardingProducer(nameserver if point == "sent" else unreachable, group=GROUP, outbox=outbox) as producer:
        for number in range(5):
            body = f"{point}-{number}"
            if point == "kept":
                assert isinstance(producer.send(Message(topic, body.encode()), timeout_ms=500), KeptReceipt)
            else:
                with outbox.begin() as box:
                    box.connection.execute("INSERT INTO orders VALUES (?)", (body,))
                    box.add(Message(topic, body.encode()))
            print(body, flush=True)
        if point == "sent":
            producer.flush(30_000)
        die()


if __name__ == "__main__":
    send(*sys.argv[1:])
