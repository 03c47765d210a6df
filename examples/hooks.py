"""Look on while messages are sent and consumed, for metrics or rules; and one client for all of it.

python examples/hooks.py [NAMESERVER]
"""

import sys
from collections import Counter
from typing import Any

from pyromq import Client, Message, Producer, PushConsumer
from pyromq.hooks import ConsumeCode, ConsumeHook, SendHook
from pyromq.testing import LoopbackBroker

counts = Counter[str]()


class Counting(SendHook, ConsumeHook):
    def after_send(self, message: Message, receipt: Any, error: Any, elapsed_ms: int) -> None:
        counts["sent" if receipt else "not sent"] += 1

    def after_consume(self, messages: Any, began: object, code: int, elapsed_ms: int) -> None:
        counts[ConsumeCode(code).name] += len(messages)


def main(nameserver: str) -> None:
    hooks = [Counting()]
    with Client(nameserver) as client, Producer(group="shop", client=client, hooks=hooks) as producer:  # one connection
        for body in (b"a", b"b", b"c"):
            producer.send(Message("letters", body))
        reader = PushConsumer(group="r", listener=print, topics="letters", start="earliest", client=client, hooks=hooks)
        reader.run(messages=3)
    print(dict(counts))


if __name__ == "__main__":
    if sys.argv[1:]:
        main(sys.argv[1])
    else:
        with LoopbackBroker() as broker:
            main(broker.nameserver)
