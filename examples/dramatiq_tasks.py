"""Dramatiq: tasks that fail are tried again, delays and dead letters are kept by the broker.

python examples/dramatiq_tasks.py [NAMESERVER]      (in a project the worker is a command: dramatiq my_module)"""

import logging
import sys

import dramatiq

from pyromq import Admin
from pyromq.integrations.dramatiq import PyroMQBroker
from pyromq.testing import LoopbackBroker


def main(nameserver: str) -> None:
    logging.disable(logging.ERROR)  # tasks fail on purpose here
    attempts: list[str] = []
    broker = PyroMQBroker(nameserver)

    @dramatiq.actor(broker=broker, queue_name="billing", max_retries=2, min_backoff=50, max_backoff=100)
    def bill(order: str) -> None:
        attempts.append(order)
        if order == "broken" or attempts.count(order) < 2:
            raise ConnectionError("the bank does not answer")

    bill.send_with_options(args=("order-1",), delay=300)
    bill.send("broken")
    worker = dramatiq.Worker(broker, worker_threads=4, worker_timeout=100)
    worker.start()
    broker.join("billing", timeout=30_000)
    worker.stop()
    print({order: attempts.count(order) for order in sorted(set(attempts))}, end="; ")
    with Admin(nameserver) as admin:
        print("dead letters:", len(admin.dead_letters.list(broker.group("billing"))))
    broker.close()


if __name__ == "__main__":
    with LoopbackBroker() as loopback:
        main(sys.argv[1] if sys.argv[1:] else loopback.nameserver)
