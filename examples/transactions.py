"""A row and a message, both or neither: an outbox in your own database.

python examples/transactions.py [NAMESERVER]
"""

import sqlite3
import sys
import tempfile

from pyromq import Message, PullConsumer
from pyromq.outbox import Outbox, OutboxProducer
from pyromq.testing import LoopbackBroker


def main(nameserver: str) -> None:
    with tempfile.NamedTemporaryFile(suffix=".db") as file:
        shop = sqlite3.connect(file.name)
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        with OutboxProducer(nameserver, group="shop-tx", topics="paid", outbox=Outbox(file.name)) as producer:
            with producer.transaction(Message("paid", b"42")) as connection:
                connection.execute("INSERT INTO orders VALUES (42)")  # committed with the block, as is the message
            try:
                with producer.transaction(Message("paid", b"43")) as connection:
                    connection.execute("INSERT INTO orders VALUES (43)")
                    raise ValueError("the card was refused")
            except ValueError as error:
                print("rolled back:", error)
        print("rows:", shop.execute("SELECT id FROM orders").fetchall())
        shop.close()
    with PullConsumer(nameserver, group="billing", topics="paid", start="earliest") as consumer:
        print("message:", next(consumer).body)


if __name__ == "__main__":
    if sys.argv[1:]:
        main(sys.argv[1])
    else:
        with LoopbackBroker() as broker:
            main(broker.nameserver)
