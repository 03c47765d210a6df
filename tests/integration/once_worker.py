"""Consumers in processes of their own, without a broker: they are handed the same messages, and some die.

    python -m tests.integration.once_worker MODE FOLDER COUNT STEP…

MODE is ``after`` (mark after the effect) or ``together`` (in one transaction). Every effect is a row of ``effects``. A
STEP is ``3`` (so many at once, each is handed COUNT messages until it has consumed them), ``die`` (one that is killed
between its first effect and the mark) or ``claim`` (tries whether the first message is free). After each step a line
tells how it went: the effects by message, or whether it was free.

One process forks all of them: it has no threads, and has imported everything.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.idempotent import InProgressError, Marks, once, once_in_transaction
from tests.unit.received import received

LEASE_MS = 2_500


class Worker:
    """Made in the process that uses it."""

    def __init__(self, mode: str, folder: Path, *, dies: bool = False) -> None:
        self._dies = dies
        self._own = effects(folder)
        self.marks = Marks(folder / ("marks.db" if mode == "after" else "effects.db"), scope="b", lease_ms=LEASE_MS)
        if mode == "after":
            self._listener = once(lambda message: self._act(message, self._own), self.marks)
        else:
            self._listener = once_in_transaction(self._act, self.marks)

    def run(self, count: int) -> None:
        waiting = [received(unique_id=f"ID-{number}") for number in range(count)]
        while waiting:
            waiting = [message for message in waiting if not self._consumed(message)]
            time.sleep(0.01 if waiting else 0)

    def _act(self, message: ReceivedMessage, connection: Any) -> None:
        connection.execute("INSERT INTO effects VALUES (?)", (message.message_id,))
        if self._dies:
            os.kill(os.getpid(), signal.SIGKILL)

    def _consumed(self, message: ReceivedMessage) -> bool:
        try:
            self._listener(message)
        except InProgressError:
            return False
        return True


def effects(folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / "effects.db", timeout=30, isolation_level=None)
    connection.execute("CREATE TABLE IF NOT EXISTS effects (id TEXT)")
    return connection


def forked(mode: str, folder: Path, count: int, *, dies: bool = False) -> int:
    if (child := os.fork()) == 0:
        try:
            Worker(mode, folder, dies=dies).run(count)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return child


def is_free(folder: Path) -> bool:
    try:
        return Marks(folder / "marks.db", scope="b", lease_ms=LEASE_MS).claim("ID-0") is not None
    except InProgressError:
        return False


def step(name: str, mode: str, folder: Path, count: int) -> object:
    if name == "claim":
        return is_free(folder)
    children = [forked(mode, folder, count, dies=name == "die") for _ in range(1 if name == "die" else int(name))]
    statuses = {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children}
    assert statuses == ({-signal.SIGKILL} if name == "die" else {0}), statuses
    connection = effects(folder)
    counts = Counter(row[0] for row in connection.execute("SELECT id FROM effects"))
    connection.close()
    return counts


if __name__ == "__main__":
    for given in sys.argv[4:]:
        print(json.dumps(step(given, sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
