"""A broker that moves to another folder or make: the commands of docs/how-to/grow.md as they stand there, but for ports
and folders, and clients of several languages that go on meanwhile.

    Machine    runs commands of the page in a folder of its own
    Traffic    senders and consumers; ``account`` says for each group what is lost and what came twice
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

from interop.driver import ClientUnderTest, DriverError
from interop.drivers import Drivers
from interop.process import Child, python_path
from interop.world import Member, until
from pyromq.testing import free_port

PAGE: Final = Path(__file__).parents[1] / "docs" / "how-to" / "grow.md"
_COMMAND_S_MAX: Final = 60
_PAUSE_S: Final = 0.05
_SETTLE_S: Final = 240  # what failed comes again after a while, and machines are slow
_QUIET_S: Final = 6  # longer than the highest level in use: what comes twice has come by then


def blocks(heading: str, info: str = "sh") -> list[str]:
    """The blocks of a part of the page."""
    part = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{info}\n(.*?)```", part, re.DOTALL)


def commands(heading: str) -> list[str]:
    """The lines of its shell blocks."""
    return [line for block in blocks(heading) for line in block.splitlines()]


def properties(heading: str) -> dict[str, str]:
    """Its configuration of Apache's broker."""
    return dict(line.split("=", 1) for block in blocks(heading, "properties") for line in block.splitlines())


class Machine:
    """Runs what the page says; its ports and folders become some that are free."""

    def __init__(self, folder: Path, nameserver: str) -> None:
        self.folder = folder
        self._ports = {"9876": nameserver.rpartition(":")[2]}
        for name in ("10911", "10931", "10951"):
            self._ports[name] = str(free_port(neighbours=(-2, 1)))
        tool = folder / "bin" / "pyromq"
        tool.parent.mkdir(parents=True)
        tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m pyromq "$@"\n')
        tool.chmod(0o755)
        self._environment = {
            "PATH": f"{tool.parent}:{os.environ['PATH']}",
            "PYTHONPATH": python_path(),
            "PYROMQ_NAMESERVER": nameserver,
        }

    def port(self, name: str) -> int:
        """Of a broker of the page, by the port that it has there."""
        return int(self._ports[name])

    def address(self, name: str) -> str:
        return f"127.0.0.1:{self._ports[name]}"

    def _here(self, text: str) -> str:
        return re.sub(r"\b(" + "|".join(self._ports) + r")\b", lambda found: self._ports[found[1]], text)

    def start(self, command: str, *more: str, says: str = "ready") -> Child:
        """A server of the page, with settings that only tests need."""
        words = shlex.split(self._here(command))
        child = Child(words[1], [sys.executable, "-m", "pyromq", *words[1:], *more], self.folder, env=self._environment)
        self.wait_for(child, says)
        return child

    def wait_for(self, child: Child, text: str) -> None:
        child.wait_ready(lambda: text in child.log_tail(100_000), _COMMAND_S_MAX)

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", self._here(command)],
            cwd=self.folder,
            env={**os.environ, **self._environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_S_MAX,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def number(self, command: str) -> int:
        """Of a command that shows one line of a broker's status."""
        (found,) = re.findall(r":\s*(\d+)\s*$", self.run(command).strip(), re.MULTILINE)
        return int(found)


@dataclass
class Sender:
    """Sends one message after the other from a thread of its own; one that is refused is sent again later, anew."""

    language: str
    member: Member
    topic: str
    acknowledged: set[str] = field(default_factory=set)  # ids
    places: Counter[tuple[int, int]] = field(default_factory=Counter)  # queues and offsets of what did not wait
    delayed: set[str] = field(default_factory=set)  # ids
    refused: int = 0

    def send(self, number: int) -> None:
        message: dict[str, Any] = {"topic": self.topic, "body": f"{self.language}-{number}", "keys": f"k{number}"}
        if number % 10 == 3:
            message["delayLevel"] = 2  # five seconds
        elif number % 10 == 7:
            message["delayMs"] = 4_000
        try:
            (result,) = self.member.call("send", mode="sync", messages=[message])
        except DriverError:
            self.refused += 1
            time.sleep(0.3)
            return
        self.acknowledged.add(result["msgId"])
        if number % 10 in (3, 7):
            self.delayed.add(result["msgId"])
        else:
            self.places[result["queueId"], result["offset"]] += 1


@dataclass(frozen=True, slots=True)
class Account:
    """Of one group."""

    group: str
    acknowledged: int
    lost: frozenset[str]
    duplicates: int
    delayed: int  # duplicates of what its sender had delayed
    unacknowledged: int  # consumed, though the sender was not told that they are stored

    def __str__(self) -> str:
        text = f"{self.group}: {self.acknowledged} acknowledged, {len(self.lost)} lost, {self.duplicates} twice"
        text += f" ({self.delayed} of these delayed by their sender)" if self.delayed else ""
        return text + (f", {self.unacknowledged} not acknowledged" if self.unacknowledged else "")


class Traffic:
    """``with Traffic(drivers, nameserver) as traffic``: senders send until the end of the block."""

    def __init__(self, drivers: Drivers, nameserver: str, topic: str = "Moving") -> None:
        self._drivers, self._nameserver, self.topic = drivers, nameserver, topic
        self._clients: dict[str, ClientUnderTest] = {}
        self._threads: list[threading.Thread] = []
        self._stopped = threading.Event()
        self.failures: list[BaseException] = []
        self.senders: list[Sender] = []
        self.groups: dict[str, tuple[Member, int]] = {}  # a consumer and how often it fails each message

    def sends(self, language: str) -> None:
        member = self._start("producer", language, f"senders-{language}", retries=2, timeoutMs=4_000)
        self.senders.append(Sender(language, member, self.topic))

    def consumes(self, language: str, *, fails: int = 0) -> None:
        group = f"{language}-{'failing' if fails else 'taking'}"
        member = self._start("push", language, group, topic=self.topic, failTimes=fails, delayLevel=1 if fails else 0)
        self.groups[group] = member, fails

    def _start(self, kind: str, language: str, group: str, **arguments: Any) -> Member:
        """Senders and consumers of a language have drivers of their own: a driver does one thing at a time."""
        key = f"{language}-{kind}"
        client = self._clients.get(key) or self._drivers.fresh(language)
        self._clients[key] = client
        member = Member(kind, f"{kind}-{group}", client)
        member.call("start", group=group, nameserver=self._nameserver, **arguments)
        return member

    def __enter__(self) -> Traffic:
        for sender in self.senders:
            thread = threading.Thread(target=self._run, args=(sender,), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(60)

    def _run(self, sender: Sender) -> None:
        try:
            for number in count():
                if self._stopped.is_set():
                    return
                sender.send(number)
                time.sleep(_PAUSE_S)
        except BaseException as error:  # told by ``flows``, on the thread of the test
            self.failures.append(error)

    @property
    def acknowledged(self) -> set[str]:
        return {id_ for sender in self.senders for id_ in list(sender.acknowledged)}

    def flows(self, more: int = 40) -> None:
        """Until every sender has got so many messages through from now on."""
        before = [len(sender.acknowledged) for sender in self.senders]

        def all_have() -> bool:
            assert not self.failures, self.failures
            return all(len(each.acknowledged) >= old + more for each, old in zip(self.senders, before, strict=True))

        until(all_have, 120, f"{more} more messages of every sender")

    def consumed(self, group: str) -> Counter[str]:
        """What the group has finished, by id."""
        member, fails = self.groups[group]
        return Counter(each["msgId"] for each in member.wait(0) if each["reconsumeTimes"] >= fails)

    def account(self) -> list[Account]:
        """After the end of the block: once every group has everything, and what may come twice has come."""
        acknowledged = self.acknowledged
        deadline = time.monotonic() + _SETTLE_S
        while any(acknowledged - self.consumed(group).keys() for group in self.groups):
            if time.monotonic() > deadline:
                break
            time.sleep(1)
        time.sleep(_QUIET_S)
        return [self._account_of(group, acknowledged) for group in self.groups]

    def _account_of(self, group: str, acknowledged: set[str]) -> Account:
        consumed = self.consumed(group)
        lost = frozenset(acknowledged - consumed.keys())
        twice = {id_: times - 1 for id_, times in consumed.items() if times > 1}
        delayed = sum(times for id_, times in twice.items() if any(id_ in each.delayed for each in self.senders))
        return Account(
            group, len(acknowledged), lost, sum(twice.values()), delayed, len(consumed.keys() - acknowledged)
        )

    def places_shared(self) -> int:
        """Queue offsets that were given to more than one message: none, where the logs are the same."""
        places = sum((sender.places for sender in self.senders), Counter[tuple[int, int]]())
        return sum(times > 1 for times in places.values())


def hand_over(machine: Machine, steps: Sequence[str], reached: Callable[[], int]) -> int:
    """The broker is closed to sends, and the copy has everything that it had then, up to what is returned.

    ``steps`` are those of the page; ``reached`` tells where the log of the broker ends.
    """
    for step in steps:
        if "updateBrokerConfig" in step:
            machine.run(step)
    end = reached()
    shown = next(step for step in steps if "replicationMetadataLogEnd" in step)
    until(lambda: machine.number(shown) >= end, 60, "the copy has everything")
    return end
