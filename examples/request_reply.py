"""Ask through a topic and wait for the reply: ``producer.request`` here, ``producer.reply`` in a listener.

python examples/request_reply.py [NAMESERVER]
"""

import sys

from pyromq import Admin, Message, Producer, PushConsumer, ReceivedMessage
from pyromq.errors import NoReplyError
from pyromq.testing import LoopbackBroker


def main(nameserver: str) -> None:
    with Admin(nameserver) as admin, Producer(nameserver, group="prices") as producer:
        admin.topics.create("questions")
        admin.topics.create("unread")

        def answer(message: ReceivedMessage) -> None:
            producer.reply(message, b"7 EUR" if message.body == b"apple" else b"unknown")

        with PushConsumer(nameserver, group="answering", listener=answer, topics="questions"):
            for fruit in (b"apple", b"pear"):
                reply = producer.request(Message("questions", fruit), timeout_ms=20_000)
                print(fruit.decode(), reply.body.decode())

        try:
            producer.request(Message("unread", b"apple"), timeout_ms=300)
        except NoReplyError as error:
            print(error)


if __name__ == "__main__":
    if sys.argv[1:]:
        main(sys.argv[1])
    else:
        with LoopbackBroker() as broker:
            main(broker.nameserver)
