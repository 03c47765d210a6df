"""Celery: the URL of the broker changes, tasks stay. Countdowns wait at the broker, rejected tasks are dead letters.

python examples/celery_tasks.py [NAMESERVER]        (in a project the worker is a command: celery -A my_module worker)
"""

import logging
import sys

from celery import Celery, group
from celery.contrib.testing.worker import start_worker
from celery.exceptions import Reject

from pyromq import Admin
from pyromq.testing import LoopbackBroker


def main(nameserver: str) -> None:
    logging.disable(logging.ERROR)  # a task is rejected on purpose here
    app = Celery("shop", broker=f"pyromq://{nameserver}//", backend="cache+memory://")
    app.conf.update(broker_transport="pyromq.integrations.celery:Transport", task_acks_late=True)

    @app.task
    def price(count: int) -> int:
        if count < 0:
            raise Reject("no such order", requeue=False)
        return count * 7

    with start_worker(app, pool="threads", concurrency=4, perform_ping_check=False, shutdown_timeout=30):
        print("now:", group(price.s(count) for count in range(5))().get(timeout=30))
        print("a second later:", price.apply_async((6,), countdown=1).get(timeout=30))
        price.delay(-1)
        print("workers:", list(app.control.inspect(timeout=2).ping().values()))
    with Admin(nameserver) as admin:
        print("dead letters:", len(admin.dead_letters.list("celery-celery")))
    app.close()


if __name__ == "__main__":
    with LoopbackBroker() as loopback:
        main(sys.argv[1] if sys.argv[1:] else loopback.nameserver)
