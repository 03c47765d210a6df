"""Consumers without asyncio, against a broker on a loop of its own."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from pyromq import Client, Message, Producer, PullConsumer, PushConsumer, QueueId, ReceivedMessage
from pyromq.errors import ConfigError
from pyromq.settings import ClientSettings, PullConsumerSettings, PushConsumerSettings
from pyromq.testing import LoopbackBroker
from tests.integration.waiting import until_on_thread

pytestmark = pytest.mark.integration

TOPIC = "orders"
PUSH = PushConsumerSettings(start="earliest", rebalance_ms=1_000)
PULL = PullConsumerSettings(start="earliest", rebalance_ms=1_000)


def send(broker: LoopbackBroker, start: int, count: int) -> list[bytes]:
    with Producer(broker.nameserver, group="makers") as producer:
        for number in range(start, start + count):
            producer.send(Message(TOPIC, b"%d" % number), queue=QueueId(TOPIC, "broker-a", 0))
    return [b"%d" % number for number in range(start, start + count)]


def test_a_push_consumer_calls_a_function() -> None:
    seen: list[bytes] = []
    threads: set[str] = set()

    def handle(message: ReceivedMessage) -> None:
        threads.add(threading.current_thread().name)
        seen.append(message.body)

    with LoopbackBroker() as broker:
        sent = send(broker, 0, 50)
        consumer = PushConsumer(broker.nameserver, group="push", listener=handle, settings=PUSH)
        consumer.subscribe(TOPIC)
        with consumer:
            until_on_thread(lambda: len(seen) == 50)
            assert QueueId(TOPIC, "broker-a", 0) in consumer.assignment and consumer.counts.ok == 50
            consumer.pause()
            consumer.resume()
            sent += send(broker, 50, 10)
            until_on_thread(lambda: len(seen) == 60)
    assert sorted(seen) == sorted(sent)
    assert all(name.startswith("pyromq-push") for name in threads)


def test_coroutines_are_for_the_asyncio_face() -> None:
    async def handle(message: ReceivedMessage) -> None: ...

    with pytest.raises(ConfigError, match=r"pyromq\.aio\.PushConsumer for async def"):
        PushConsumer(group="push", listener=handle)


def test_a_for_loop_that_is_left_goes_on_behind_the_message_it_came_to() -> None:
    with LoopbackBroker() as broker:
        sent = send(broker, 0, 50)
        with PullConsumer(broker.nameserver, group="pull", settings=PULL) as consumer:
            consumer.subscribe(TOPIC)
            for message in consumer:
                if message.offset == 9:
                    break
            assert [message.offset for message in consumer.poll()][:2] == [10, 11]
            with pytest.raises(KeyError):
                _fail_at(consumer, 40)
        with pytest.raises(KeyError), PullConsumer(broker.nameserver, group="pull", settings=PULL) as consumer:
            consumer.subscribe(TOPIC)
            _fail_at(consumer, 45)
        with PullConsumer(broker.nameserver, group="pull", settings=PULL) as consumer:
            consumer.subscribe(TOPIC)
            assert next(consumer).body == sent[45], "it failed, so it comes again"


def _fail_at(consumer: PullConsumer, offset: int) -> None:
    for message in consumer:
        if message.offset == offset:
            raise KeyError(offset)


def test_queues_by_hand_with_a_shared_client() -> None:
    with LoopbackBroker() as broker:
        send(broker, 0, 30)
        with Client(ClientSettings(nameservers=broker.nameserver)) as client:
            with PullConsumer(group="hand", settings=PULL, client=client) as consumer:
                queue = consumer.queues(TOPIC)[0]
                consumer.assign([queue])
                consumer.seek(queue, 20)
                assert consumer.poll()[0].offset == 20 and consumer.position(queue) == 30
                consumer.commit()
                assert consumer.committed(queue) == 30


ENDLESS = """
import sys, threading
from pyromq import Message, Producer, PushConsumer
from pyromq.settings import PushConsumerSettings
from pyromq.testing import LoopbackBroker

begun = threading.Event()

def stubborn(message):
    begun.set()
    threading.Event().wait()

broker = LoopbackBroker().__enter__()
with Producer(broker.nameserver, group="shop") as producer:
    producer.send(Message("orders", b"1"))
settings = PushConsumerSettings(close_timeout_ms=50, exit_timeout_ms=200)
consumer = PushConsumer(
    broker.nameserver, group="billing", listener=stubborn, topics="orders", start="earliest", settings=settings
)
consumer.open()
assert begun.wait(30)
if sys.argv[1] == "closed":
    consumer.close()
"""


@pytest.mark.parametrize("how", ["closed", "left open"])
def test_the_interpreter_ends_though_a_listener_does_not_return(how: str) -> None:
    """It hung for ever: threads of a pool are joined at exit."""
    ended = subprocess.run(
        [sys.executable, "-c", ENDLESS, how], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert (
        "exit does not wait longer for listener __main__.stubborn of group billing, which has message" in ended.stderr
    )
