"""Taskiq with its real package: its receiver, its middleware, its command."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import pytest
from taskiq import BrokerMessage, SimpleRetryMiddleware, SmartRetryMiddleware, TaskiqEvents, TaskiqMessage
from taskiq.exceptions import SendTaskError
from taskiq.receiver import Receiver

from pyromq.aio import Admin, Message, Producer
from pyromq.errors import ClientClosedError, ConfigError
from pyromq.integrations.task_queues import TaskMode
from pyromq.integrations.taskiq import PyroMQBroker
from pyromq.testing import LoopbackBroker
from tests.integration.both_loops import Run
from tests.integration.task_worker import NOTE, Ledger, TaskWorker
from tests.integration.waiting import until, until_on_thread

pytestmark = pytest.mark.integration

TASKS = 200


@asynccontextmanager
async def working(broker: PyroMQBroker, **options: Any) -> AsyncIterator[None]:
    """As the command ``taskiq worker`` does."""
    broker.is_worker_process = True
    finish = asyncio.Event()
    receiver = Receiver(broker, max_async_tasks=10, run_startup=False, **options)
    listening = asyncio.create_task(receiver.listen(finish))
    try:
        yield
    finally:
        finish.set()
        await asyncio.wait_for(listening, 20)


async def dead_letters(loopback: LoopbackBroker, group: str) -> int:
    async with Admin(loopback.nameserver) as admin:
        return len(await admin.dead_letters.list(group))


async def waiting(broker: PyroMQBroker, queue: str = "taskiq") -> int:
    return await broker._open().size(queue)


@pytest.mark.parametrize("mode", get_args(TaskMode))
def test_tasks_run_once(run: Run, mode: TaskMode) -> None:
    async def main() -> None:
        done: list[tuple[int, str]] = []
        async with LoopbackBroker() as loopback:
            broker = PyroMQBroker(loopback.nameserver, topic_queues=2, mode=mode)

            @broker.task
            async def note(number: int, text: str) -> None:
                done.append((number, text))

            await broker.startup()
            for number in range(50):
                await note.kiq(number, "grüße 🎉" * 1_000)
            async with working(broker):
                await until(lambda: len(done) == 50)
            assert await broker._open().join("taskiq", timeout_ms=5_000)
            await broker.shutdown()
            await broker.shutdown()
        assert sorted(done) == [(number, "grüße 🎉" * 1_000) for number in range(50)]

    run(main())


def test_a_delayed_task_waits_at_the_broker() -> None:
    async def main() -> None:
        done: list[str] = []
        async with LoopbackBroker(virtual_time=True) as loopback:
            broker = PyroMQBroker(loopback.nameserver)

            @broker.task
            async def remind(name: str) -> None:
                done.append(name)

            await broker.startup()
            await remind.kicker().with_labels(delay=86_400).kiq("tomorrow")
            await remind.kicker().with_labels(delay="0.5").kiq("soon")
            await remind.kicker().with_labels(delay=-5).kiq("now")
            async with Admin(loopback.nameserver) as admin:
                assert len(await admin.delays.list()) == 2
            async with working(broker):
                await loopback.advance(hours=23)
                assert done == ["now", "soon"]
                await loopback.advance(hours=1)
                assert done == ["now", "soon", "tomorrow"]
            await broker.shutdown()

    asyncio.run(main())


def test_queues_are_topics_and_labels_choose_them(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        done: list[str] = []
        async with LoopbackBroker() as loopback:
            broker = PyroMQBroker(loopback.nameserver, queues=["quick", "slow.queue"], topic_queues=1)

            @broker.task(queue_name="slow.queue", priority=3)
            async def slow() -> None:
                done.append("slow")

            @broker.task
            async def quick() -> None:
                done.append("quick")

            await broker.startup()
            await slow.kiq()
            await slow.kiq()
            await quick.kiq()
            assert (await waiting(broker, "quick"), await waiting(broker, "slow.queue")) == (1, 2)
            await quick.kicker().with_labels(queue_name="elsewhere").kiq()
            async with working(broker):
                await until(lambda: sorted(done) == ["quick", "slow", "slow"])
            assert await waiting(broker, "elsewhere") == 1  # no worker listens to it
            await broker.shutdown()

    run(main())
    assert sum("label not used" in record.getMessage() for record in caplog.records) == 1


def test_retries_of_middleware_wait_at_the_broker() -> None:
    async def main() -> None:
        attempts: Counter[str] = Counter()
        async with LoopbackBroker(virtual_time=True) as loopback:
            broker = PyroMQBroker(loopback.nameserver).with_middlewares(
                SmartRetryMiddleware(default_retry_count=3, default_delay=600)
            )

            @broker.task(retry_on_error=True)
            async def flaky(name: str) -> None:
                attempts[name] += 1
                if attempts[name] < 3:
                    raise ValueError("not now")

            await broker.startup()
            await flaky.kiq("a")
            async with working(broker):
                await loopback.advance(minutes=9)
                assert attempts["a"] == 1
                await loopback.advance(hours=1)
                assert attempts["a"] == 3
            await broker.shutdown()

    asyncio.run(main())


def test_what_taskiq_would_drop_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        done: list[str] = []
        async with LoopbackBroker(virtual_time=True) as loopback:
            old = PyroMQBroker(loopback.nameserver)
            new = PyroMQBroker(loopback.nameserver)

            async def later(name: str) -> None:
                done.append(name)

            await old.startup()
            await new.startup()
            async with Producer(loopback.nameserver, group="stranger") as producer:
                await producer.send(Message("taskiq", b"\xff no task"))
            await old.kick(old.formatter.dumps(message_of("later", "Ada")))
            async with working(old):
                await loopback.advance(seconds=1)
                assert await dead_letters(loopback, old.group()) == 1
            await old.shutdown()
            new.register_task(later, task_name="later")
            async with working(new):
                await loopback.advance(minutes=2)
            assert done == ["Ada"]
            await new.shutdown()

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("pyromq.integrations")]
    assert any("message is no task" in line for line in lines) and any(
        "no function for a task" in line for line in lines
    )


def message_of(name: str, *args: Any) -> TaskiqMessage:
    return TaskiqMessage(task_id="1", task_name=name, labels={}, args=list(args), kwargs={})


def test_a_broker_may_restart_under_a_worker(run: Run) -> None:
    async def main() -> None:
        done: list[int] = []
        async with LoopbackBroker() as loopback:
            broker = PyroMQBroker(loopback.nameserver).with_middlewares(SimpleRetryMiddleware())

            @broker.task
            async def note(number: int) -> None:
                done.append(number)

            await broker.startup()
            async with working(broker):
                for number in range(20):
                    await note.kiq(number)
                await loopback.restart()
                for number in range(20, 40):
                    await note.kiq(number)
                await until(lambda: set(done) == set(range(40)), timeout_s=25)
            await broker.shutdown()

    run(main())


def test_mistakes_are_told(run: Run) -> None:
    async def main() -> None:
        with pytest.raises(ConfigError, match="queues must be a name"):
            PyroMQBroker(queues=[])
        with pytest.raises(TypeError, match="no option 'url'"):
            PyroMQBroker(url="x")  # type: ignore[call-arg]
        async with LoopbackBroker() as loopback:
            broker = PyroMQBroker(loopback.nameserver)
            message = BrokerMessage(task_id="1", task_name="t", message=b"{}", labels={})
            with pytest.raises(ClientClosedError, match=r"broker\.startup"):
                await broker.kick(message)

            @broker.task
            async def task() -> None: ...

            with pytest.raises(SendTaskError):
                await task.kiq()
            await broker.startup()
            with pytest.raises(ConfigError, match="started already"):
                await broker.startup()
            with pytest.raises(ConfigError, match="label delay must be a number of seconds, not 'soon'"):
                await broker.kick(message.model_copy(update={"labels": {"delay": "soon"}}))
            await broker.shutdown()
            await broker.startup()  # again
            await broker.kick(message)
            await broker.shutdown()

    run(main())


def test_a_failed_handler_leaves_nothing_open(run: Run) -> None:
    async def main() -> None:
        async with LoopbackBroker() as loopback:
            broker = PyroMQBroker(loopback.nameserver)

            @broker.on_event(TaskiqEvents.CLIENT_STARTUP)
            async def fail(state: Any) -> None:
                raise ValueError("handler")

            with pytest.raises(ValueError, match="handler"):
                await broker.startup()
            with pytest.raises(ClientClosedError):
                await broker.kick(BrokerMessage(task_id="1", task_name="t", message=b"{}", labels={}))

    run(main())


WORKER = f"""{NOTE}
from pyromq.integrations.taskiq import PyroMQBroker
broker = PyroMQBroker(os.environ["NAMESERVER"], topic_queues=4)

@broker.task(task_name="note")
def note(number: int) -> None:
    write(f"begin {{number}}")
    time.sleep(0.02)
    write(f"end {{number}}")
"""


def test_tasks_of_a_worker_that_was_killed_run_again(tmp_path: Path) -> None:
    async def send(nameserver: str) -> None:
        broker = PyroMQBroker(nameserver, topic_queues=4)
        await broker.startup()
        for number in range(TASKS):
            await broker.kick(broker.formatter.dumps(message_of("note", number)))
        await broker.shutdown()

    async def drained(nameserver: str) -> bool:
        broker = PyroMQBroker(nameserver)
        await broker.startup()
        try:
            return await broker._open().join("taskiq", timeout_ms=20_000)
        finally:
            await broker.shutdown()

    (tmp_path / "jobs.py").write_text(WORKER)
    ledger = Ledger(tmp_path / "ledger")
    command = ("taskiq", "worker", "jobs:broker", "-w", "1", "--max-async-tasks", "4", "--max-threadpool-threads", "4")
    with LoopbackBroker() as loopback:
        environment = {"NAMESERVER": loopback.nameserver, "LEDGER": str(ledger.path)}
        asyncio.run(send(loopback.nameserver))
        with TaskWorker(tmp_path, *command, **environment) as worker:
            until_on_thread(lambda: len(ledger.count("end")) > TASKS // 4, "the first worker works", 30)
            worker.kill()
        assert len(ledger.count("end")) < TASKS
        with TaskWorker(tmp_path, *command, **environment) as worker:
            until_on_thread(lambda: len(ledger.count("end")) == TASKS, "all tasks ran", 40)
            assert asyncio.run(drained(loopback.nameserver))
            worker.stop()
    assert ledger.count("begin").total() < 2 * TASKS  # most ran once
