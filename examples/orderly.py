"""Keep the order of what belongs together: sharding keys choose the queue, an orderly consumer takes it one by one.

python examples/orderly.py [NAMESERVER]
"""

import sys
from collections import defaultdict

from pyromq import Message, OrderlyStatus, Producer, PushConsumer, ReceivedMessage
from pyromq.testing import LoopbackBroker

steps: dict[str, list[str]] = defaultdict(list)


def follow(message: ReceivedMessage) -> OrderlyStatus:
    if message.body == b"paid" and message.delivery_attempt == 0:
        return OrderlyStatus.SUSPEND  # the bank is slow: this queue rests a second, the others go on
    steps[message.sharding_key].append(message.body.decode())
    return OrderlyStatus.SUCCESS


def main(nameserver: str) -> None:
    with Producer(nameserver, group="shop") as producer:
        for step in (b"created", b"paid", b"shipped"):
            for order in ("7", "8", "9"):
                producer.send(Message("steps", step, sharding_key=order))

    consumer = PushConsumer(nameserver, group="steps", listener=follow, topics="steps", start="earliest", orderly=True)
    consumer.run(messages=9)
    for order in sorted(steps):
        print(order, *steps[order])


if __name__ == "__main__":
    if sys.argv[1:]:
        main(sys.argv[1])
    else:
        with LoopbackBroker() as broker:
            main(broker.nameserver)
