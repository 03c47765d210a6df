"""Ask for messages when there is time for them: poll, seek, commit; or a plain for loop.

python examples/pull_loop.py [NAMESERVER]
"""

import sys

from pyromq import Message, Producer, PullConsumer
from pyromq.offsets import SeekTo
from pyromq.testing import LoopbackBroker


def main(nameserver: str) -> None:
    with Producer(nameserver, group="shop") as producer:
        producer.send_batch([Message("readings", b"%d" % number) for number in range(10)])

    with PullConsumer(nameserver, group="reports", topics="readings", start="earliest") as consumer:
        batch = consumer.poll(count_max=4)  # of one queue; empty when nothing came within five seconds
        print("polled", *(message.body.decode() for message in batch))

        for message in consumer:  # goes on where poll has stopped; a message is done when the next one is asked for
            if message.body == b"9":
                break
        consumer.commit()
        print("committed", consumer.committed(message.queue), "of queue", message.queue.number)

        consumer.seek(message.queue, SeekTo.BEGIN)
        print("again from", next(consumer).body.decode())


if __name__ == "__main__":
    if sys.argv[1:]:
        main(sys.argv[1])
    else:
        with LoopbackBroker() as broker:
            main(broker.nameserver)
