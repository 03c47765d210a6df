"""Celery with its real package: workers are processes, with pools of processes and of threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chord, group, signature
from kombu.exceptions import OperationalError

from pyromq import Admin
from pyromq.testing import LoopbackBroker
from tests.integration.task_worker import NOTE, Ledger, TaskWorker
from tests.integration.waiting import until_on_thread

pytestmark = pytest.mark.integration

TASKS = 200
WAIT_S = 30

JOBS = f"""{NOTE}
import signal
from celery import Celery
from celery.exceptions import Reject

app = Celery("jobs", broker=os.environ["BROKER"])
app.conf.update(
    broker_transport="pyromq.integrations.celery:Transport",
    broker_transport_options={{"topic_queues": 4, "requeue_ms": 0}},
    broker_connection_retry_on_startup=True,
    result_backend="file://" + os.environ["RESULTS"],
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=2,
    worker_hijack_root_logger=False,
)

@app.task(name="note")
def note(number, seconds=0.02):
    write(f"begin {{number}}")
    time.sleep(seconds)
    write(f"end {{number}}")
    return number

@app.task(name="total")
def total(numbers):
    return sum(numbers)

@app.task(name="fail_once", bind=True, max_retries=3)
def fail_once(self, number):
    write(f"begin {{number}}")
    if self.request.retries < 1:
        raise self.retry(countdown=0.2)
    return number

@app.task(name="early", acks_late=False)
def early(number):
    write(f"begin {{number}}")
    return number

@app.task(name="pass_on")
def pass_on(number):
    note.delay(number)

@app.task(name="refuse")
def refuse(number, requeue):
    write(f"begin {{number}}")
    raise Reject("no", requeue=requeue)

@app.task(name="die_once")
def die_once(number):
    write(f"begin {{number}}")
    if sum(line == f"begin {{number}}" for line in open(os.environ["LEDGER"]).read().splitlines()) < 2:
        os.kill(os.getpid(), signal.SIGKILL)
    write(f"end {{number}}")
"""


class Rig:
    """A broker, an application that sends, and workers of it."""

    def __init__(self, folder: Path, loopback: LoopbackBroker) -> None:
        self.folder = folder
        self.loopback = loopback
        (folder / "jobs.py").write_text(JOBS)
        (folder / "results").mkdir()
        self.ledger = Ledger(folder / "ledger")
        self.environment = {
            "BROKER": f"pyromq://{loopback.nameserver}//",
            "RESULTS": str(folder / "results"),
            "LEDGER": str(self.ledger.path),
        }
        self.app = Celery("jobs", broker=self.environment["BROKER"], set_as_current=False)
        self.app.conf.update(
            broker_transport="pyromq.integrations.celery:Transport",
            broker_transport_options={"topic_queues": 4},
            result_backend="file://" + self.environment["RESULTS"],
        )

    def worker(self, *flags: str) -> TaskWorker:
        command = ("celery", "-A", "jobs", "worker", "-l", "INFO", *flags)
        return TaskWorker(self.folder, *command, C_FORCE_ROOT="1", **self.environment)

    def send(self, name: str, *args: Any, **options: Any) -> Any:
        return self.app.send_task(name, args, **options)

    def dead_letters(self) -> int:
        with Admin(self.loopback.nameserver) as admin:
            return len(admin.dead_letters.list("celery-celery"))

    def waiting(self, queue: str = "celery") -> int:
        """Tasks that wait or run."""
        with self.app.connection_for_read() as connection:
            return int(connection.default_channel._size(queue))

    def close(self) -> None:
        self.app.close()
        self.app.pool.force_close_all()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with LoopbackBroker(delay_levels_ms=(20,) * 18) as loopback:
        rig = Rig(tmp_path, loopback)
        yield rig
        rig.close()


def test_tasks_of_a_worker_that_was_killed_run_again(rig: Rig) -> None:
    for number in range(TASKS):
        rig.send("note", number)
    ledger = rig.ledger
    with rig.worker("-c", "2") as worker:
        until_on_thread(lambda: len(ledger.count("end")) > TASKS // 4, "the first worker works", WAIT_S)
        worker.kill()
    assert len(ledger.count("end")) < TASKS
    with rig.worker("-c", "2") as worker:
        until_on_thread(lambda: len(ledger.count("end")) == TASKS, "all tasks ran", WAIT_S)
        until_on_thread(lambda: rig.waiting() == 0, "all are acknowledged", WAIT_S)
        assert worker.stop() == 0
    assert ledger.count("begin").total() < 2 * TASKS  # most ran once


def test_a_warm_shutdown_finishes_what_runs_and_gives_the_rest_back(rig: Rig) -> None:
    """Celery forgets tasks that a process has been given and has not begun with; so the test waits until two run."""
    for number in range(8):
        rig.send("note", number, 1.5)
    name = "one@test"

    def running() -> int:
        tasks = (rig.app.control.inspect([name], timeout=1).active() or {}).get(name, [])
        return sum(task["time_start"] is not None for task in tasks)

    with rig.worker("-c", "2", "-n", name) as worker:
        until_on_thread(lambda: running() == 2, "two tasks run", WAIT_S)
        assert worker.stop() == 0
    assert len(rig.ledger.count("end")) < 8 and rig.ledger.count("begin") == rig.ledger.count("end")
    with rig.worker("-c", "4") as worker:
        until_on_thread(lambda: len(rig.ledger.count("end")) == 8, "all tasks ran", WAIT_S)
    assert set(rig.ledger.count("begin").values()) == {1}  # none of them twice


def test_tasks_run_once_when_workers_join_and_leave(rig: Rig) -> None:
    threads = ("-P", "threads", "-c", "2")
    with rig.worker(*threads, "-n", "one@test") as one:
        rig.send("note", 0).get(timeout=WAIT_S)
        for number in range(1, TASKS):
            rig.send("note", number)
        with rig.worker(*threads, "-n", "two@test") as two:
            until_on_thread(lambda: "two@test ready." in two.log(), "the second worker joined", WAIT_S)
            assert one.stop() == 0
            until_on_thread(lambda: len(rig.ledger.count("end")) == TASKS, "all tasks ran", WAIT_S)
            assert two.stop() == 0
    assert set(rig.ledger.count("begin").values()) == {1}


def test_a_task_whose_process_died_runs_again(rig: Rig) -> None:
    rig.send("die_once", 1)
    rig.send("note", 2)
    with rig.worker("-c", "2"):
        until_on_thread(lambda: len(rig.ledger.count("end")) == 2, "both ran", WAIT_S)
    assert rig.ledger.count("begin")[1] == 2


def test_processes_that_are_forked_while_the_worker_runs_send_tasks_too(rig: Rig) -> None:
    with rig.worker("-c", "2", "--max-tasks-per-child", "1") as worker:
        for number in range(6):
            rig.send("pass_on", number)
        until_on_thread(lambda: len(rig.ledger.count("end")) == 6, "all were passed on", WAIT_S)
        until_on_thread(lambda: rig.waiting() == 0, "all are acknowledged", WAIT_S)
        assert worker.stop() == 0


def test_a_broker_may_restart_under_a_worker(rig: Rig) -> None:
    with rig.worker("-P", "threads", "-c", "4"):
        for number in range(20):
            rig.send("note", number)
        rig.loopback.restart()
        for number in range(20, 40):
            rig.send("note", number)
        until_on_thread(lambda: len(rig.ledger.count("end")) == 40, "all tasks ran", WAIT_S)


def test_what_celery_does_with_tasks(rig: Rig) -> None:
    """One worker for all of it: starting one takes a second."""
    with rig.worker("-P", "threads", "-c", "4", "-E") as worker:
        assert rig.send("note", 1).get(timeout=WAIT_S) == 1

        # remote control: fanout to workers, replies to this process, more than once
        [pong] = rig.app.control.inspect(timeout=WAIT_S, limit=1).ping().values()
        assert pong == {"ok": "pong"}
        [queues] = rig.app.control.inspect(timeout=WAIT_S, limit=1).active_queues().values()
        assert [queue["name"] for queue in queues] == ["celery"]

        # a task that is due later is not in the memory of the worker
        sent, later = time.time(), rig.send("note", 2, countdown=3)
        [scheduled] = rig.app.control.inspect(timeout=WAIT_S, limit=1).scheduled().values()
        [reserved] = rig.app.control.inspect(timeout=WAIT_S, limit=1).reserved().values()
        assert scheduled == [] and reserved == []
        assert later.get(timeout=WAIT_S) == 2 and time.time() - sent >= 3
        assert rig.send("note", 3, eta=datetime.now(UTC) - timedelta(days=1)).get(timeout=WAIT_S) == 3

        # retries, groups, chords
        assert rig.send("fail_once", 4).get(timeout=WAIT_S) == 4
        header = [signature("note", (number,), app=rig.app) for number in (5, 6, 7)]
        assert group(header, app=rig.app).apply_async().get(timeout=WAIT_S) == [5, 6, 7]
        assert chord(header, signature("total", app=rig.app), app=rig.app)().get(timeout=WAIT_S) == 18

        # acknowledged before it runs, as is Celery's default; sent by a task
        assert rig.send("early", 8).get(timeout=WAIT_S) == 8
        rig.send("pass_on", 9)
        until_on_thread(lambda: rig.ledger.count("end")[9] == 1, "the task that a task sent", WAIT_S)

        # large
        assert rig.send("total", list(range(50_000))).get(timeout=WAIT_S) == sum(range(50_000))

        # rejected, requeued for ever, unknown: dead letters
        rig.send("refuse", 10, False)
        rig.send("refuse", 11, True)
        rig.send("never heard of it: größe", 12)
        until_on_thread(lambda: rig.dead_letters() == 3, "dead letters", WAIT_S)
        assert rig.ledger.count("begin")[10] == 1 and rig.ledger.count("begin")[11] == 17

        # events
        assert "task-succeeded" in events_of(rig, lambda: rig.send("note", 13))
        assert worker.stop() == 0


def events_of(rig: Rig, act: Any) -> list[str]:
    """What a monitor hears after something was done; a worker may notice only a moment later that there is one.

    Heartbeats of the worker come every two seconds, so there is always something to hear.
    """
    found: list[str] = []
    deadline_s = time.monotonic() + WAIT_S
    with rig.app.connection_for_read() as connection:
        receiver = rig.app.events.Receiver(connection, handlers={"*": lambda event: found.append(event["type"])})
        consuming = receiver.itercapture(limit=None, timeout=WAIT_S, wakeup=False)
        next(consuming)  # it listens
        act()
        for _ in consuming:
            if "task-succeeded" in found or time.monotonic() > deadline_s:
                return found
            if found[-1:] == ["worker-heartbeat"]:
                act()
    return found


def test_a_queue_of_its_own_for_some_workers(rig: Rig) -> None:
    rig.send("note", 1, queue="slow.tasks")
    rig.send("note", 2)
    with rig.worker("-P", "solo", "-Q", "slow.tasks") as worker:
        until_on_thread(lambda: rig.ledger.count("end") == {1: 1}, "the slow one ran", WAIT_S)
        worker.stop()
    assert rig.ledger.count("begin") == {1: 1}
    assert rig.app.control.purge() == 1
    assert rig.waiting() == 0


def test_a_producer_without_a_broker_says_so(tmp_path: Path) -> None:
    app = Celery("jobs", broker="pyromq://127.0.0.1:1//", set_as_current=False)
    app.conf.update(broker_transport="pyromq.integrations.celery:Transport", broker_connection_timeout=1)
    with pytest.raises(OperationalError):
        app.send_task("note", (1,), retry=False)
    app.close()


def test_threads_share_an_application(rig: Rig) -> None:
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda start=start: results.extend(rig.send("note", start + i) for i in range(5)))  # type: ignore[misc]
        for start in range(0, 40, 5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with rig.worker("-P", "threads", "-c", "8"):
        assert sorted(result.get(timeout=WAIT_S) for result in results) == list(range(40))
