"""Delivered twice, done once: a mark in your own database, in the same transaction as the effect.

python examples/consume_once.py [NAMESERVER]
"""

import sys
import tempfile
from typing import Any

from pyromq import Message, Producer, PushConsumer, ReceivedMessage
from pyromq.idempotent import Marks, once_in_transaction
from pyromq.testing import LoopbackBroker


def bill(message: ReceivedMessage, connection: Any) -> None:
    connection.execute("INSERT INTO bills VALUES (?)", (message.keys[0],))


def main(nameserver: str) -> None:
    with Producer(nameserver, group="shop") as producer:
        for number in (1, 2, 2, 3):  # the second of the same keys stands for a producer that has sent twice
            producer.send(Message("to-bill", b"order", keys=f"order-{number}"))

    with tempfile.NamedTemporaryFile(suffix=".db") as file:
        marks = Marks(file.name, scope="billing")
        with marks.database.begin() as connection:
            connection.execute("CREATE TABLE bills (key TEXT)")
        once = once_in_transaction(bill, marks)
        consumer = PushConsumer(nameserver, group="bill", listener=once, topics="to-bill", start="earliest", threads=1)
        print("delivered", consumer.run(messages=4))
        with marks.database.begin() as connection:
            print("billed", *sorted(row[0] for row in connection.execute("SELECT key FROM bills")))


if __name__ == "__main__":
    if sys.argv[1:]:
        main(sys.argv[1])
    else:
        with LoopbackBroker() as broker:
            main(broker.nameserver)
