"""What an operator asks: topics, how far groups are, one message by its key, what became of it.

    python examples/admin.py [NAMESERVER]

On a terminal: ``pyromq topic ls``, ``pyromq group lag``, ``pyromq message find``, ``pyromq message explain``.
"""

import sys

from pyromq import Admin, Message, Producer, PushConsumer
from pyromq.offsets import EARLIEST
from pyromq.testing import LoopbackBroker


def main(nameserver: str) -> None:
    with Admin(nameserver) as admin, Producer(nameserver, group="shop") as producer:
        admin.topics.create("invoices", queues=2)
        print("brokers:", *admin.brokers.cluster().broker_addr_table)
        receipt = producer.send(Message("invoices", b"42", keys="invoice-42"))

        reader = PushConsumer(nameserver, group="archive", listener=lambda _: None, topics="invoices", start="earliest")
        reader.run(messages=1)
        progress = admin.groups.lag("archive", "invoices")
        print("not consumed:", sum(queue.broker_offset - queue.consumer_offset for queue in progress.values()))

        found = admin.messages.find("invoices", "invoice-42")
        print("found:", found[0].body, found[0].message_id == receipt.message_id)
        told = admin.messages.explain("invoices", receipt.message_id)
        print("explained:", [(group.group, group.state) for group in told.groups])

        plan = admin.offsets.plan_reset("archive", "invoices", to_ms=EARLIEST)
        print("a reset would bring back", sum((move.old or 0) - move.new for move in plan))


if __name__ == "__main__":
    if sys.argv[1:]:
        main(sys.argv[1])
    else:
        with LoopbackBroker() as broker:
            main(broker.nameserver)
