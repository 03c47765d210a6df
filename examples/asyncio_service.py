"""A service on asyncio: coroutines as listeners, many sends at once, an end that loses nothing.

python examples/asyncio_service.py [NAMESERVER]
"""

import asyncio
import sys

from pyromq.aio import Message, Producer, PushConsumer, ReceivedMessage
from pyromq.testing import LoopbackBroker


async def main(nameserver: str) -> None:
    async with Producer(nameserver, group="shop") as producer:

        async def ship(message: ReceivedMessage) -> None:  # up to 64 of them run at once
            await asyncio.sleep(0.01)  # stands for a call to another service
            await producer.send(Message("parcels", message.body, keys=message.keys))

        orders = [Message("orders", b"order %d" % number, keys=f"order-{number}") for number in range(100)]
        receipts = await asyncio.gather(*(producer.send(order) for order in orders))
        print("sent", len(receipts))

        consumer = PushConsumer(nameserver, group="shipping", listener=ship, topics="orders", start="earliest")
        print("shipped", await consumer.run(messages=100))  # run() alone ends with Ctrl-C, SIGTERM or close()


async def main_with_a_broker_of_its_own() -> None:
    async with LoopbackBroker() as broker:
        await main(broker.nameserver)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]) if sys.argv[1:] else main_with_a_broker_of_its_own())
