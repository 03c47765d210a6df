"""Ask for a part of a topic: by tag, or by properties with SQL92. The broker sends nothing else.

python examples/filter_sql.py [NAMESERVER]
"""

import sys

from pyromq import Message, Producer, PushConsumer, ReceivedMessage
from pyromq.testing import LoopbackBroker

ORDERS = ((5, "eu", "new"), (15, "eu", "new"), (25, "asia", "paid"), (35, "us", "paid"))


def show(message: ReceivedMessage) -> None:
    print(message.body.decode(), message.get("region"), message.tags)


def main(nameserver: str) -> None:
    with Producer(nameserver, group="shop") as producer:
        for price, region, tag in ORDERS:
            properties = {"price": str(price), "region": region}
            producer.send(Message("priced", b"%d" % price, tags=tag, properties=properties))

    topics = {"priced": "paid || returned"}  # a message has one tag
    PushConsumer(nameserver, group="paid", listener=show, topics=topics, start="earliest", threads=1).run(messages=2)

    large = PushConsumer(nameserver, group="large", listener=show, start="earliest", threads=1)
    large.subscribe("priced", "price > 10 AND region IN ('eu', 'us')", sql=True)
    large.run(messages=2)


if __name__ == "__main__":
    if sys.argv[1:]:
        main(sys.argv[1])
    else:
        with LoopbackBroker() as broker:
            main(broker.nameserver)
