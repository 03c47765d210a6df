"""Every line that a listener logs says which message it is about, here as JSON; structlog works the same way.

python examples/logging_fields.py [NAMESERVER]
"""

import logging
import sys

from pyromq import Message, Producer, PushConsumer
from pyromq.integrations.logging import JsonFormatter, install
from pyromq.testing import LoopbackBroker

handler = logging.StreamHandler(sys.stdout)
handler.setFormatter(JsonFormatter())
logger = logging.getLogger("billing")
logger.addHandler(handler)
logger.setLevel(logging.INFO)


def bill(message):
    charge(message.body)


def charge(amount):  # knows nothing of messages
    logger.info("charged", extra={"euros": int(amount)})


def main(nameserver: str) -> None:
    install()
    with Producer(nameserver, group="shop") as producer:
        producer.send(Message("orders", b"42", keys="order-42"))
    PushConsumer(nameserver, group="billing", topics="orders", listener=bill, start="earliest").run(messages=1)


if __name__ == "__main__":
    if sys.argv[1:]:
        main(sys.argv[1])
    else:
        with LoopbackBroker() as broker:
            main(broker.nameserver)
