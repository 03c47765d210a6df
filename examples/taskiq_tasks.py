"""Taskiq: tasks on asyncio, with delays that the broker keeps.

python examples/taskiq_tasks.py [NAMESERVER]    (in a project the worker is a command: taskiq worker my_module:broker)
"""

import asyncio
import logging
import sys

from taskiq.api import run_receiver_task

from pyromq.integrations.taskiq import PyroMQBroker
from pyromq.testing import LoopbackBroker


async def main(nameserver: str) -> None:
    logging.getLogger("taskiq").setLevel(logging.ERROR)
    broker = PyroMQBroker(nameserver, queues="greetings")
    done: asyncio.Queue[str] = asyncio.Queue()

    @broker.task
    async def greet(name: str) -> None:
        await done.put(name)

    await broker.startup()
    await greet.kicker().with_labels(delay=0.5).kiq("Grace, half a second later")
    await greet.kiq("Ada")
    worker = asyncio.create_task(run_receiver_task(broker, max_async_tasks=10))
    for _ in range(2):
        print("hello", await asyncio.wait_for(done.get(), 30))
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    await broker.shutdown()


if __name__ == "__main__":
    with LoopbackBroker() as loopback:
        asyncio.run(main(sys.argv[1] if sys.argv[1:] else loopback.nameserver))
