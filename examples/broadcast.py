"""Every member gets every message: caches that are to be emptied, settings that changed.

python examples/broadcast.py [NAMESERVER]
"""

import sys
import tempfile
from pathlib import Path

from pyromq import Message, Producer, PushConsumer, ReceivedMessage
from pyromq.settings import PushConsumerSettings
from pyromq.testing import LoopbackBroker


def empty(message: ReceivedMessage) -> None:
    print("emptying", message.body.decode())


def main(nameserver: str) -> None:
    with Producer(nameserver, group="office") as producer:
        producer.send(Message("cache-keys", b"price-list"))
        producer.send(Message("cache-keys", b"opening-hours"))

    for name in ("one", "two"):  # two machines, say
        with tempfile.TemporaryDirectory() as folder:  # where a member keeps its offsets; else the home folder
            ours = PushConsumerSettings(broadcast=True, start="earliest", threads=1, offsets_folder=Path(folder))
            member = PushConsumer(nameserver, group="caches", listener=empty, topics="cache-keys", settings=ours)
            print(name, "emptied", member.run(messages=2))


if __name__ == "__main__":
    if sys.argv[1:]:
        main(sys.argv[1])
    else:
        with LoopbackBroker() as broker:
            main(broker.nameserver)
