"""Send a few messages and consume them: what a producer, a listener, a group and ``run`` are.

python examples/send_and_consume.py [NAMESERVER]
"""

import sys

from pyromq import Message, Producer, PushConsumer, ReceivedMessage
from pyromq.testing import LoopbackBroker


def bill(message: ReceivedMessage) -> None:
    """Called on a pool of threads. Returning is success; raising makes the message come again, later and later."""
    print(f"billed {message.body.decode()}, keys {message.keys}")


def main(nameserver: str) -> None:
    with Producer(nameserver, group="shop") as producer:
        for number in (1, 2, 3):
            order = Message("orders", f"order {number}".encode(), tags="new", keys=f"order-{number}")
            receipt = producer.send(order)  # returns when a broker has it on disk
            print(f"sent {receipt.message_id} to queue {receipt.queue.number}")

    consumer = PushConsumer(nameserver, group="billing", listener=bill, topics="orders", start="earliest", threads=1)
    print("consumed", consumer.run(messages=3))  # a service says run(): until Ctrl-C or SIGTERM


if __name__ == "__main__":
    if sys.argv[1:]:
        main(sys.argv[1])
    else:
        with LoopbackBroker() as broker:
            main(broker.nameserver)
