"""Many at once: a batch is one request for many messages, a batch listener gets many of them in one call.

python examples/batch.py [NAMESERVER]
"""

import sys

from pyromq import Message, Producer, PushConsumer, ReceivedMessage
from pyromq.results import BatchResult
from pyromq.testing import LoopbackBroker

stored: list[int] = []


def store(messages: list[ReceivedMessage]) -> BatchResult:
    """One INSERT for all of them, say. What lies behind ``ack_index`` comes again."""
    stored.extend(int(message.body) for message in messages)
    return BatchResult(ack_index=len(messages) - 1)


def main(nameserver: str) -> None:
    with Producer(nameserver, group="sensors") as producer:
        receipts = producer.send_batch([Message("measurements", b"%d" % number) for number in range(500)])
        print("sent", len(receipts), "to", len({receipt.queue for receipt in receipts}), "queue")

    PushConsumer(
        nameserver, group="warehouse", batch_listener=store, batch_max=100, topics="measurements", start="earliest"
    ).run(messages=500)
    print("stored", len(stored))


if __name__ == "__main__":
    if sys.argv[1:]:
        main(sys.argv[1])
    else:
        with LoopbackBroker() as broker:
            main(broker.nameserver)
