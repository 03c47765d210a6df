"""Dramatiq with its real package: its worker, its middleware, its command."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import dramatiq
import pytest
from dramatiq.errors import ConnectionFailed, QueueJoinTimeout, QueueNotFound
from dramatiq.middleware import default_middleware

from pyromq import Admin, Message, Producer
from pyromq.errors import ConfigError, MessageTooLargeError
from pyromq.integrations.dramatiq import PyroMQBroker
from pyromq.integrations.task_queues import TaskMode
from pyromq.testing import AsyncServerProcess, LoopbackBroker
from tests.integration.task_worker import NOTE, Ledger, TaskWorker
from tests.integration.waiting import until, until_on_thread

pytestmark = pytest.mark.integration

TASKS = 200


@pytest.fixture
def loopback() -> Iterator[LoopbackBroker]:
    with LoopbackBroker(delay_levels_ms=(20,) * 18) as broker:
        yield broker


@pytest.fixture
def mode() -> TaskMode:
    return "queue"


@pytest.fixture
def broker(loopback: LoopbackBroker, mode: TaskMode) -> Iterator[PyroMQBroker]:
    middleware = [each() for each in default_middleware if each.__name__ != "Prometheus"]
    broker = PyroMQBroker(loopback.nameserver, middleware=middleware, topic_queues=2, mode=mode)
    yield broker
    broker.close()


@contextmanager
def working(broker: PyroMQBroker, **options: Any) -> Iterator[dramatiq.Worker]:
    worker = dramatiq.Worker(broker, worker_timeout=100, worker_threads=4, **options)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()


def dead_letters(loopback: LoopbackBroker, group: str) -> int:
    with Admin(loopback.nameserver) as admin:
        return len(admin.dead_letters.list(group))


@pytest.mark.parametrize("mode", get_args(TaskMode))
def test_tasks_run_once(broker: PyroMQBroker) -> None:
    done: list[tuple[int, str]] = []

    @dramatiq.actor(broker=broker)
    def add(number: int, text: str) -> None:
        done.append((number, text))

    for number in range(50):
        add.send(number, "grüße 🎉")
    with working(broker):
        broker.join(add.queue_name, timeout=20_000)
    assert sorted(done) == [(number, "grüße 🎉") for number in range(50)]


@pytest.mark.parametrize("mode", get_args(TaskMode))
def test_a_failed_task_is_tried_again_and_then_a_dead_letter(broker: PyroMQBroker, loopback: LoopbackBroker) -> None:
    attempts: Counter[str] = Counter()

    @dramatiq.actor(broker=broker, max_retries=2, min_backoff=10, max_backoff=20)
    def fail(name: str) -> None:
        attempts[name] += 1
        if name == "poison" or attempts[name] < 2:
            raise ValueError("not now")

    fail.send("poison")
    fail.send("flaky")
    with working(broker):
        until_on_thread(lambda: attempts == {"poison": 3, "flaky": 2})
        broker.join(fail.queue_name, timeout=20_000)
        until_on_thread(lambda: dead_letters(loopback, broker.group("default")) == 1)
        with Admin(loopback.nameserver) as admin:
            [letter] = admin.dead_letters.list(broker.group("default"))
    assert (letter.failure.error_class, letter.failure.text) == ("ValueError", "not now")
    assert attempts == {"poison": 3, "flaky": 2}


def test_a_delayed_task_waits_at_the_broker() -> None:
    done: list[str] = []
    with LoopbackBroker(virtual_time=True) as loopback:
        broker = PyroMQBroker(loopback.nameserver, middleware=[])

        @dramatiq.actor(broker=broker)
        def remind(name: str) -> None:
            done.append(name)

        remind.send_with_options(args=("Ada",), delay=7 * 86_400_000)
        with Admin(loopback.nameserver) as admin:
            assert [message.topic for message in admin.delays.list()] == ["default"]
        loopback.advance(days=6, hours=23)
        consumer = broker.consume("default", prefetch=10, timeout=1_000)
        assert next(consumer) is None
        loopback.advance(hours=1)
        message = next(consumer)
        assert message is not None and message.args == ("Ada",) and "eta" not in message.options
        consumer.ack(message)
        broker.join("default", timeout=5_000)
        consumer.close()
        broker.close()


def test_no_more_messages_are_out_than_a_worker_asks_for(loopback: LoopbackBroker) -> None:
    broker = PyroMQBroker(loopback.nameserver, middleware=[], topic_queues=1)
    broker.declare_queue("mail")
    for number in range(5):
        broker.enqueue(dramatiq.Message("mail", "send", (number,), {}, {}))
    consumer = broker.consume("mail", prefetch=2, timeout=2_000)
    first, second = next(consumer), next(consumer)
    assert first is not None and second is not None
    consumer._timeout_ms = 50  # type: ignore[attr-defined]
    assert next(consumer) is None
    consumer.ack(second)
    consumer._timeout_ms = 5_000  # type: ignore[attr-defined]
    third = next(consumer)
    assert third is not None
    consumer.requeue([first, third])
    again = [next(consumer), next(consumer)]
    assert [message and message.args for message in again] == [first.args, third.args]
    consumer.close()
    broker.close()


def test_what_is_no_task_is_a_dead_letter(broker: PyroMQBroker, loopback: LoopbackBroker) -> None:
    done: list[int] = []

    @dramatiq.actor(broker=broker, queue_name="mixed")
    def fine(number: int) -> None:
        done.append(number)

    fine.send(1)
    with Producer(loopback.nameserver, group="stranger") as producer:
        producer.send(Message("mixed", b"\xff no json"))
    broker.enqueue(dramatiq.Message("mixed", "unknown_actor", (), {}, {}))
    fine.send(2)
    with working(broker):
        until_on_thread(lambda: sorted(done) == [1, 2])
        until_on_thread(lambda: dead_letters(loopback, broker.group("mixed")) == 2)


def test_a_worker_takes_only_the_queues_it_is_told(broker: PyroMQBroker) -> None:
    done: list[str] = []

    @dramatiq.actor(broker=broker, queue_name="quick")
    def quick() -> None:
        done.append("quick")

    @dramatiq.actor(broker=broker, queue_name="slow.queue")
    def slow() -> None:
        done.append("slow")

    slow.send()
    quick.send()
    with working(broker, queues={"quick"}):
        broker.join("quick", timeout=20_000)
    assert done == ["quick"]
    with pytest.raises(QueueJoinTimeout):
        broker.join("slow.queue", timeout=50)
    broker.flush_all()
    broker.join("slow.queue", timeout=5_000)


def test_a_broker_may_restart_under_a_worker(broker: PyroMQBroker, loopback: LoopbackBroker) -> None:
    done: list[int] = []

    @dramatiq.actor(broker=broker)
    def note(number: int) -> None:
        done.append(number)

    with working(broker):
        for number in range(20):
            note.send(number)
        loopback.restart()
        for number in range(20, 40):
            note.send(number)
        until_on_thread(lambda: set(done) == set(range(40)), timeout_s=40)


def test_a_broker_may_be_killed_under_a_worker(tmp_path: Path) -> None:
    async def main() -> None:
        done: list[int] = []
        async with AsyncServerProcess("up", data=tmp_path) as server:
            broker = PyroMQBroker(server.nameserver, middleware=[], topic_queues=2)

            @dramatiq.actor(broker=broker)
            def note(number: int) -> None:
                done.append(number)

            def send(numbers: range) -> None:
                for number in numbers:
                    note.send(number)

            def run_worker(stop: threading.Event) -> None:
                with working(broker):
                    stop.wait(60)

            stop = threading.Event()
            working_thread = asyncio.create_task(asyncio.to_thread(run_worker, stop))
            try:
                await asyncio.to_thread(send, range(50))
                await server.kill()
                await server.start()
                await asyncio.to_thread(send, range(50, 100))
                await until(lambda: set(done) == set(range(100)), "all tasks ran", 40)
            finally:
                stop.set()
                await working_thread
                await asyncio.to_thread(broker.close)

    asyncio.run(main())


def test_mistakes_are_told(broker: PyroMQBroker) -> None:
    with pytest.raises(QueueNotFound):
        broker.consume("unknown")
    with pytest.raises(QueueNotFound):
        broker.enqueue(dramatiq.Message("unknown", "task", (), {}, {}))
    broker.declare_queue("mail")
    with pytest.raises(MessageTooLargeError):
        broker.enqueue(dramatiq.Message("mail", "task", (os.urandom(6 << 20).hex(),), {}, {}))
    with pytest.raises(TypeError, match="no option 'host'"):
        PyroMQBroker(host="x")  # type: ignore[call-arg]
    with pytest.raises(ConfigError):
        PyroMQBroker("127.0.0.1:9876", topic_queues=0)
    nowhere = PyroMQBroker("127.0.0.1:1", middleware=[])
    nowhere.declare_queue("mail")
    with pytest.raises(ConnectionFailed):
        nowhere.enqueue(dramatiq.Message("mail", "task", (), {}, {}))
    nowhere.close()
    nowhere.close()


def test_a_child_of_a_fork_opens_a_connection_of_its_own(loopback: LoopbackBroker, tmp_path: Path) -> None:
    program = f"""
import os, dramatiq
from pyromq.integrations.dramatiq import PyroMQBroker
broker = PyroMQBroker({loopback.nameserver!r}, middleware=[])
broker.declare_queue("mail")
send = lambda text: broker.enqueue(dramatiq.Message("mail", "task", (text,), {{}}, {{}}))
send("parent")
pid = os.fork()
send("child" if pid == 0 else "parent again")
broker.close()
if pid:
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=30)
    broker = PyroMQBroker(loopback.nameserver, middleware=[])
    broker.declare_queue("mail")
    consumer = broker.consume("mail", prefetch=10, timeout=5_000)
    found = sorted(message.args[0] for message in (next(consumer), next(consumer), next(consumer)) if message)
    assert found == ["child", "parent", "parent again"]
    consumer.close()
    broker.close()


WORKER = f"""{NOTE}
import dramatiq
from pyromq.integrations.dramatiq import PyroMQBroker
dramatiq.set_broker(PyroMQBroker(os.environ["NAMESERVER"], topic_queues=4))

@dramatiq.actor(max_retries=0)
def note(number):
    write(f"begin {{number}}")
    time.sleep(0.02)
    write(f"end {{number}}")
"""


def test_tasks_of_a_worker_that_was_killed_run_again(loopback: LoopbackBroker, tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(WORKER)
    ledger = Ledger(tmp_path / "ledger")
    environment = {"NAMESERVER": loopback.nameserver, "LEDGER": str(ledger.path)}
    command = ("dramatiq", "jobs", "--path", str(tmp_path), "-p", "1", "-t", "4")
    broker = PyroMQBroker(loopback.nameserver, middleware=[], topic_queues=4)
    broker.declare_queue("default")
    for number in range(TASKS):
        broker.enqueue(dramatiq.Message("default", "note", (number,), {}, {}))
    with TaskWorker(tmp_path, *command, **environment) as worker:
        until_on_thread(lambda: len(ledger.count("end")) > TASKS // 4, "the first worker works", 30)
        worker.kill()
    assert len(ledger.count("end")) < TASKS
    with TaskWorker(tmp_path, *command, **environment) as worker:
        until_on_thread(lambda: len(ledger.count("end")) == TASKS, "all tasks ran", 40)
        broker.join("default", timeout=20_000)
        assert worker.stop() == 0
    assert ledger.count("begin").total() < 2 * TASKS  # most ran once
    broker.close()


def test_threads_share_a_broker(broker: PyroMQBroker) -> None:
    done: list[int] = []

    @dramatiq.actor(broker=broker)
    def note(number: int) -> None:
        done.append(number)

    threads = [
        threading.Thread(target=lambda start=start: [note.send(start + each) for each in range(10)])  # type: ignore[misc]
        for start in range(0, 80, 10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with working(broker):
        broker.join("default", timeout=20_000)
    assert sorted(done) == list(range(80))
