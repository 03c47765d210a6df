"""``pyromq run`` and ``app.run()`` as processes: signals, workers that die, reloads, mistakes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyromq import Admin, Message, Producer
from pyromq.app.supervisor import Supervisor
from pyromq.testing import LoopbackBroker
from tests.integration.waiting import until_on_thread

pytestmark = pytest.mark.integration

PROGRAM = """
    import os, sys, time, pathlib
    import pyromq

    app = pyromq.App(os.environ["NAMESERVER"], name="demo")

    @app.consume("orders", group="billing", start="earliest")
    def bill(body: bytes) -> None:
        print("begin", os.getpid(), flush=True)
        if body == b"slow":
            while not pathlib.Path("go-on").exists():
                time.sleep(0.01)
        print("consumed", body.decode(), os.getpid(), flush=True)

    @app.consume("prices", group="caches", broadcast=True, start="earliest")
    def forget(body: bytes) -> None:
        print("forget", body.decode(), os.getpid(), flush=True)

    @app.on_stop
    def bye() -> None:
        print("bye", os.getpid(), flush=True)

    if __name__ == "__main__":
        print("ready", flush=True)
        app.run()
"""


@pytest.fixture
def nameserver() -> Iterator[str]:
    with LoopbackBroker() as broker:
        with Admin(broker.nameserver) as admin:
            for topic in ("orders", "prices"):
                admin.topics.create(topic, queues=4)
        yield broker.nameserver


class Process:
    """A program of the test, whose output is kept in files."""

    def __init__(self, folder: Path, nameserver: str, *command: str) -> None:
        self._out, self._err = folder / "out.txt", folder / "err.txt"
        environment = {**os.environ, "NAMESERVER": nameserver, "PYTHONUNBUFFERED": "1"}
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, *command], cwd=folder, env=environment, stdout=out, stderr=err, start_new_session=True
            )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def until(self, condition: Callable[[], object], what: str = "") -> None:
        until_on_thread(lambda: condition() or self._ended(), what)

    def _ended(self) -> bool:
        assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.out}\n{self.err}"
        return False

    def health(self, path: str) -> tuple[int, Any]:
        found = re.search(r"health=(\d+)", self.out)
        assert found, self.out
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}{path}", timeout=30) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def pids(self, word: str) -> set[int]:
        return {int(line.split()[-1]) for line in self.out.splitlines() if line.startswith(word)}

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def running(folder: Path, nameserver: str, *command: str) -> Iterator[Process]:
    file = folder / "demo_app.py"
    if not file.exists():
        file.write_text(textwrap.dedent(PROGRAM))
    made = Process(folder, nameserver, *command)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
            made.process.wait()


def send(nameserver: str, topic: str, *bodies: bytes) -> None:
    with Producer(nameserver, group="p") as producer:
        for body in bodies:
            producer.send(Message(topic, body))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_a_program_and_a_finished_message_does_not_come_again(
    tmp_path: Path, nameserver: str, number: int
) -> None:
    with running(tmp_path, nameserver, "demo_app.py") as program:
        send(nameserver, "orders", b"slow")
        program.until(lambda: "begin" in program.out)
        program.process.send_signal(number)
        program.until(lambda: True)
        (tmp_path / "go-on").touch()
        assert program.process.wait(40) == 0, program.err
        assert re.search(r"consumed slow \d+\nbye", program.out)
    with running(tmp_path, nameserver, "demo_app.py") as program:
        send(nameserver, "orders", b"next")
        program.until(lambda: "consumed next" in program.out)
        assert "slow" not in program.out
        assert program.end() == 0


def test_a_second_signal_ends_a_program_at_once_and_its_message_comes_again(tmp_path: Path, nameserver: str) -> None:
    with running(tmp_path, nameserver, "demo_app.py") as program:
        send(nameserver, "orders", b"slow")
        program.until(lambda: "begin" in program.out)
        program.process.send_signal(signal.SIGTERM)
        program.process.send_signal(signal.SIGTERM)
        while program.process.poll() is None:  # signals that come together are heard as one
            program.process.send_signal(signal.SIGTERM)
            until_on_thread(lambda: True)
        assert program.process.returncode == 143 and "bye" not in program.out
    (tmp_path / "go-on").touch()
    with running(tmp_path, nameserver, "demo_app.py") as program:
        program.until(lambda: "consumed slow" in program.out)
        program.end()


def test_one_process_has_a_health_endpoint_and_the_command_line_says_where_to_connect(
    tmp_path: Path, nameserver: str
) -> None:
    command = ("-m", "pyromq", "run", "demo_app:app", "--nameserver", nameserver, "--health-port", "0")
    with running(tmp_path, "127.0.0.1:1", *command) as program:
        program.until(lambda: program.out.startswith("ready app=demo listeners=2 pid="))
        program.until(lambda: program.health("/ready")[0] == 200)
        assert program.health("/live")[0] == 200
        status, facts = program.health("/ready")
        assert status == 200 and facts["state"] == "running" and set(facts["groups"]) == {"billing", "caches"}
        assert program.health("/other")[0] == 404
        assert program.end() == 0 and "bye" in program.out


def test_an_app_whose_servers_cannot_be_reached_lives_and_is_not_ready(tmp_path: Path) -> None:
    command = ("-m", "pyromq", "run", "demo_app:app", "--health-port", "0", "--log", "error")
    with running(tmp_path, "127.0.0.1:1", *command) as program:
        program.until(lambda: "health=" in program.out)
        assert program.health("/live")[0] == 200
        status, facts = program.health("/ready")
        assert (status, facts["state"], facts["ready"]) == (503, "running", False)
        assert program.end() == 0


def test_workers_are_restarted_when_they_die_and_drained_together(tmp_path: Path, nameserver: str) -> None:
    command = ("-m", "pyromq", "run", "demo_app:app", "--workers", "3", "--health-port", "0")
    with running(tmp_path, nameserver, *command) as program:
        program.until(lambda: "ready app=demo_app:app workers=3" in program.out)
        pids = [each["pid"] for each in program.health("/ready")[1]["workers"]]
        os.kill(pids[0], signal.SIGKILL)
        program.until(lambda: "worker 1 ended by SIGKILL: starting another one" in program.err)
        program.until(lambda: program.health("/ready")[0] == 200)
        workers = program.health("/ready")[1]["workers"]
        assert [each["pid"] for each in workers][1:] == pids[1:] and workers[0]["restarts"] == 1
        send(nameserver, "orders", *(b"%d" % number for number in range(40)))
        send(nameserver, "prices", b"apple")

        def consumed() -> set[str]:  # while queues change hands, one may come twice
            return set(re.findall(r"consumed (\d+) ", program.out))

        program.until(lambda: len(consumed()) == 40 and program.out.count("forget apple") == 3)
        assert len(program.pids("forget")) == 3, "every worker has a name of its own that lasts"
        assert program.end() == 0, program.err
        assert program.out.count("bye") == 3 and program.out.count("ready") == 1
        assert not any(map(is_alive, [each["pid"] for each in workers]))


def test_workers_end_when_their_supervisor_is_killed(tmp_path: Path, nameserver: str) -> None:
    command = ("-m", "pyromq", "run", "demo_app:app", "--workers", "2", "--health-port", "0")
    with running(tmp_path, nameserver, *command) as program:
        program.until(lambda: "workers=2" in program.out)
        pids = [each["pid"] for each in program.health("/ready")[1]["workers"]]
        program.end(signal.SIGKILL)
        until_on_thread(lambda: not any(map(is_alive, pids)), "workers without supervisor", timeout_s=30)
        assert program.out.count("bye") == 2


def test_a_second_signal_ends_all_workers_at_once(tmp_path: Path, nameserver: str) -> None:
    command = ("-m", "pyromq", "run", "demo_app:app", "--workers", "2")
    with running(tmp_path, nameserver, *command) as program:
        program.until(lambda: "workers=2" in program.out)
        send(nameserver, "orders", b"slow")
        program.until(lambda: "begin" in program.out)
        (slow,) = program.pids("begin")
        program.process.send_signal(signal.SIGINT)
        program.until(lambda: "draining 2 workers" in program.err)
        program.process.send_signal(signal.SIGINT)
        program.process.wait(60)
        assert "second signal" in program.err and not is_alive(slow)


def test_a_changed_file_begins_workers_anew_also_after_a_mistake(tmp_path: Path, nameserver: str) -> None:
    command = ("-m", "pyromq", "run", "demo_app:app", "--reload")
    with running(tmp_path, nameserver, *command) as program:
        program.until(lambda: program.out.count("ready") == 1)
        text = (tmp_path / "demo_app.py").read_text()
        (tmp_path / "demo_app.py").write_text(text.replace("def bill(", "def bill(((("))
        program.until(lambda: "SyntaxError" in program.err)
        (tmp_path / "demo_app.py").write_text(text.replace('print("consumed"', 'print("billed"'))
        program.until(lambda: program.out.count("ready") == 2)
        send(nameserver, "orders", b"1")
        program.until(lambda: "billed 1" in program.out)
        assert program.err.count("demo_app.py changed: workers begin anew") == 2
        assert program.end() == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_app_that_is_wrong_is_told_once_and_not_restarted(tmp_path: Path, nameserver: str, workers: str) -> None:
    (tmp_path / "demo_app.py").write_text(
        "import pyromq\napp = pyromq.App(name='x')\n@app.consume('orders')\ndef bill(order): ...\n"
    )
    with running(tmp_path, nameserver, "-m", "pyromq", "run", "demo_app:app", "-w", workers) as program:
        assert program.process.wait(40) == 1
        assert "parameter 'order' has no annotation" in program.err and "starting another" not in program.err
        assert "Traceback" not in program.err


def test_documents_and_checks_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "demo_app.py").write_text(textwrap.dedent(PROGRAM))
    environment = {**os.environ, "NAMESERVER": "127.0.0.1:1"}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pyromq", "app", *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )

    found = json.loads(run("docs", "demo_app:app").stdout)
    assert found["asyncapi"] == "3.0.0" and set(found["operations"]) == {"bill", "forget"}
    assert run("docs", "demo_app:app", "-o", "out.yaml").stdout == ""
    assert (tmp_path / "out.yaml").read_text().startswith('asyncapi: "3.0.0"\n')
    assert run("check", "demo_app:app").stdout == "demo: 2 listeners fit\n"
    wrong = run("check", "demo_app:nothing")
    assert wrong.returncode == 1 and "there is app" in wrong.stderr


async def test_pauses_between_restarts_double_and_a_stop_ends_them() -> None:
    lines: list[str] = []
    command = [sys.executable, "-S", "-c", "raise SystemExit(3)"]

    def tell(line: str) -> None:
        lines.append(line)
        if len(lines) == 3:
            supervisor.stop()

    supervisor = Supervisor(command, 1, tell=tell, first_pause_s=0.1)
    assert supervisor.health().is_live and not supervisor.health().is_ready
    assert await supervisor.run() == 0
    text = "worker 1 ended with code 3: starting another one in"
    assert lines == [f"{text} 0.1 s", f"{text} 0.2 s", f"{text} 0.4 s"]
    assert supervisor.workers[0].restarts == 3


async def test_a_worker_that_ends_before_anybody_listens_leaves_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []
    pair = socket.socketpair

    def noted() -> tuple[socket.socket, socket.socket]:
        made.extend(pair())
        return made[0], made[1]

    async def ended() -> int:
        return 3

    async def start(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(wait=ended, returncode=3)

    supervisor = Supervisor(["a worker"], 1, tell=print)
    monkeypatch.setattr(socket, "socketpair", noted)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    assert await supervisor._live(supervisor.workers[0]) == 3
    assert [each.fileno() for each in made] == [-1, -1]


async def test_a_worker_that_talks_nonsense_is_passed_over() -> None:
    program = """
import os, socket
link = socket.socket(fileno=int(os.environ["PYROMQ_WORKER_FD"]))
link.sendall(b'nonsense\\n[1]\\n\\xff\\n{"ready":1}\\n{"ready":true,"state":"running"}\\n')
link.recv(1)
"""
    ready: list[bool] = []

    def on_ready() -> None:
        ready.append(supervisor.health().is_ready)
        supervisor.stop()

    command = [sys.executable, "-c", program.replace("\\\\", "\\")]
    supervisor = Supervisor(command, 2, tell=lambda line: None, on_ready=on_ready)
    assert await supervisor.run() == 0
    assert ready == [True]
