"""The official clients of RocketMQ 5, built once outside of git, each behind a driver that reads lines of JSON.

    producer.start        name endpoint topics       its checker commits what ends with "commit", rolls back "rollback"
            .send         name message               → id, handle (of a delayed message)
            .transaction  name message ending        ending: commit, rollback, none
            .recall       name topic handle
    simple.start          name endpoint group topic expression sql waitMs
          .receive        name count invisibleMs     → views
          .ack            name id
          .change         name id invisibleMs
    push.start            name endpoint group topic expression sql failures       {body: how often its listener fails}
        .wait             name count timeoutMs       → every view so far
    crowd.start           endpoint group topic expression sql count waitMs        (Go) → how many there are
         .run             invisibleMs timeoutMs      → how often each body was acknowledged, and errors
    *.stop                name
    message               topic body [tag keys properties group deliverAtMs priority]
    view                  id body tag keys properties attempt group

The transport is what each client does unless it is told otherwise: TLS in Java and Go, plain text in the others. A
request may take 20 seconds: a busy machine is not a broken server.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from interop.driver import ClientUnderTest
from interop.jars import cache_folder

HERE: Final = Path(__file__).parent
_BUILD_S: Final = 1_800
_numbers = itertools.count()


def run(command: Sequence[str | Path], folder: Path, timeout_s: int = _BUILD_S) -> str:
    """Standard output of a program that has to succeed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    return done.stdout


@dataclass(frozen=True, slots=True)
class Toolchain:
    """How programs on one client are built; ``source`` is where a program's text goes in its folder."""

    source: str
    build: Callable[[Path], list[str | Path]]
    version: str

    def driver(self, language: str) -> list[str | Path]:
        """Command of the driver, built in the cache where its text is new."""
        text = (HERE / language / self.source).read_text(encoding="utf-8")
        name = f"{language}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        return self.program(language, text, cache_folder() / "grpc" / name)

    def program(self, language: str, text: str, folder: Path) -> list[str | Path]:
        """Build a program on the same client. Returns its command."""
        shutil.copytree(HERE / language, folder, dirs_exist_ok=True)
        (folder / self.source).write_text(text, encoding="utf-8")
        return self.build(folder)


def _java(folder: Path) -> list[str | Path]:
    jars = cache_folder() / "grpc" / "java-jars"
    if not jars.is_dir():
        run(["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={jars}"], folder)
    if not (folder / "classes").is_dir():
        run(["javac", "-cp", f"{jars}/*", "-d", "classes", "Driver.java"], folder)
    main = re.search(r"class (\w+)", (folder / "Driver.java").read_text(encoding="utf-8"))
    assert main is not None
    return ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}/classes:{jars}/*", main[1]]


def _go(folder: Path) -> list[str | Path]:
    if not (folder / "driver").exists():
        run(["go", "build", "-o", "driver", "."], folder)
    return [folder / "driver"]


def _node(folder: Path) -> list[str | Path]:
    home = cache_folder() / "grpc"
    if not (home / "node_modules").is_dir():
        shutil.copy(folder / "package.json", home)
        run(["npm", "install", "--no-audit", "--no-fund"], home)
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(home / "node_modules")
    return ["node", folder / "driver.js"]


def _rust(folder: Path) -> list[str | Path]:
    target = cache_folder() / "grpc" / "rust-target"
    if not (folder / "driver").exists():
        run(["cargo", "build", "--quiet", "--target-dir", target], folder)
        shutil.copy(target / "debug" / "driver", folder / "driver")
    return [folder / "driver"]


def _python(folder: Path) -> list[str | Path]:
    venv = cache_folder() / "grpc" / "python-venv"
    if not (venv / "ready").exists():
        run([sys.executable, "-m", "venv", venv], folder)
        run([venv / "bin/python", "-m", "pip", "install", "--quiet", "-r", folder / "requirements.txt"], folder)
        (venv / "ready").touch()
    return [venv / "bin/python", folder / "driver.py"]


TOOLCHAINS: Final[dict[str, Toolchain]] = {
    "java": Toolchain("Driver.java", _java, "5.2.0"),
    "python": Toolchain("driver.py", _python, "5.1.2"),
    "go": Toolchain("main.go", _go, "5.1.4"),
    "node": Toolchain("driver.js", _node, "1.0.8"),
    "rust": Toolchain("src/main.rs", _rust, "5.0.0"),
}


class GrpcDrivers:
    """One long-lived driver per language, and others beside it. ``close`` ends all of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shared: dict[str, ClientUnderTest] = {}
        self._running = ExitStack()

    def get(self, language: str) -> ClientUnderTest:
        known = self._shared.get(language)
        if known is None or not known.is_running:
            known = self._shared[language] = self.fresh(language)
        return known

    def fresh(self, language: str) -> ClientUnderTest:
        folder = self._folder / f"{language}{next(_numbers)}"
        command = [str(word) for word in TOOLCHAINS[language].driver(language)]
        client = ClientUnderTest(language, command, folder, env={"HOME": str(folder)})
        return self._running.enter_context(client)

    def close(self) -> None:
        self._running.close()


View = dict[str, Any]


@dataclass
class GrpcMember:
    """A producer or consumer that a driver runs."""

    client: ClientUnderTest = field(repr=False)
    kind: str
    name: str

    def call(self, op: str, **arguments: Any) -> Any:
        return self.client.call(f"{self.kind}.{op}", name=self.name, **arguments)

    def send(self, topic: str, body: str, **fields: Any) -> dict[str, str]:
        sent: dict[str, str] = self.call("send", message={"topic": topic, "body": body, **fields})
        return sent

    def receive(self, count: int = 16, invisible_s: float = 15) -> list[View]:
        views: list[View] = self.call("receive", count=count, invisibleMs=int(invisible_s * 1_000))
        return views

    def take(self, count: int, timeout_s: float = 60, *, batch: int = 16, invisible_s: float = 30) -> list[View]:
        """Receive and acknowledge so many messages, in the order in which they come."""
        found: list[View] = []
        end_s = time.monotonic() + timeout_s
        while len(found) < count and time.monotonic() < end_s:
            for view in self.receive(batch, invisible_s):
                self.call("ack", id=view["id"])
                found.append(view)
        return found

    def wait(self, count: int, timeout_s: float = 60) -> list[View]:
        """Every view of a push consumer, once there are so many or the time is over."""
        views: list[View] = self.call("wait", count=count, timeoutMs=int(timeout_s * 1_000))
        return views


def bodies(views: Sequence[View]) -> list[str]:
    return [view["body"] for view in views]
