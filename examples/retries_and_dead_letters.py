"""Failures: a message that comes again, one that is given up, and its dead letter sent again.

    python examples/retries_and_dead_letters.py [NAMESERVER]

A broker's first retry waits ten seconds; the broker that is started without NAMESERVER has shorter levels.
"""

import sys

from pyromq import Admin, ConsumeStatus, Message, Producer, PushConsumer, ReceivedMessage
from pyromq.results import BatchResult
from pyromq.testing import LoopbackBroker


def pay(message: ReceivedMessage) -> ConsumeStatus | BatchResult:
    if message.body == b"flaky" and message.delivery_attempt < 2:
        return ConsumeStatus.RETRY  # or raise: it comes again, later and later, up to 16 times
    if message.body == b"broken":
        return BatchResult(ConsumeStatus.RETRY, delay_level=-1)  # it cannot succeed: a dead letter at once
    print("paid", message.body.decode(), "at attempt", message.delivery_attempt + 1)
    return ConsumeStatus.SUCCESS


def main(nameserver: str) -> None:
    with Producer(nameserver, group="shop") as producer:
        for body in (b"fine", b"flaky", b"broken"):
            producer.send(Message("payments", body, keys=body.decode()))
    consumer = PushConsumer(nameserver, group="paying", listener=pay, topics="payments", start="earliest", threads=1)
    consumer.run(messages=2)
    with Admin(nameserver) as admin:
        print("dead:", [" ".join(letter.keys) for letter in admin.dead_letters.list("paying")])
        print("sent again:", len(admin.dead_letters.redrive("paying")))  # when the reason is gone


if __name__ == "__main__":
    if sys.argv[1:]:
        main(sys.argv[1])
    else:
        with LoopbackBroker(delay_levels_ms=(20,) * 18) as broker:
            main(broker.nameserver)
