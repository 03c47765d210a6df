"""Messages that wait: for a time of their own, or at one of 18 levels; and one that is called back.

python examples/delayed.py [NAMESERVER]
"""

import sys
import time

from pyromq import Admin, Message, Producer, PushConsumer, ReceivedMessage
from pyromq.testing import LoopbackBroker

began = time.monotonic()


def remind(message: ReceivedMessage) -> None:
    print(f"{message.body.decode()} after {time.monotonic() - began:.1f} s")


def main(nameserver: str) -> None:
    with Producer(nameserver, group="shop") as producer, Admin(nameserver) as admin:
        producer.send(Message("reminders", b"at level 1", delay_level=1))  # level 1 is a second, unless brokers differ
        producer.send(Message("reminders", b"in 0.3 s", delay_ms=300))
        later = producer.send(Message("reminders", b"never", deliver_at_ms=(time.time_ns() // 1_000_000) + 60_000))
        admin.delays.recall(later.recall_handle)

    PushConsumer(nameserver, group="clerk", listener=remind, topics="reminders", start="earliest").run(messages=2)


if __name__ == "__main__":
    if sys.argv[1:]:
        main(sys.argv[1])
    else:
        with LoopbackBroker() as broker:
            main(broker.nameserver)
