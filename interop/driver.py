"""A client under test: a child process that does what lines of JSON ask for, one at a time and in order.

    → {"op": "push.wait", "name": "push7", "count": 3, "timeoutMs": 5000}
    ← {"ok": [...]}    or    {"error": {"type": ..., "message": ..., "code": ...}}

    producer.start        name group nameserver [timeoutMs retries compressOver vip trace transactional topic]
            .send         name mode messages [broker queueId]          mode: sync async oneway batch ordered queue
            .request      name message timeoutMs                       the reply's body
            .transaction  name message                                 user properties outcome, checked: what to answer
            .checks       name                                         bodies of prepared messages that were asked about
    push.start            name group nameserver topic [tags sql orderly broadcasting from failTimes delayLevel
                                                       maxAttempts workMs reply trace pop]
        .wait             name count timeoutMs                         everything the listener has seen so far
    lite.start            name group nameserver topic [tags assign autoCommit]
        .poll             name count timeoutMs
        .seek             name topic [queueId offset]                  all queues to their beginnings, or one
        .commit           name
    *.stop                name
    message               topic body [tags keys properties shard delayLevel delayMs deliverAtMs]

A listener fails a message as long as it came fewer than ``failTimes`` times before, and works ``workMs`` on each. The
same lines drive RocketMQ's Java client (``java/``), its Go client (``go/``) and ours (``python_driver.py``).
"""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

_ANSWER_TIMEOUT_S: Final = 90
_END_TIMEOUT_S: Final = 15


class DriverError(Exception):
    """What the client threw; ``code`` is the server's, where it had one."""

    def __init__(self, facts: dict[str, Any]) -> None:
        super().__init__(f"{facts['type']}: {facts['message']}\n{facts.get('trace', '')}")
        self.kind: str = facts["type"]
        self.code: int | None = facts.get("code")
        self.message: str = facts["message"]


class ClientUnderTest:
    """``with ClientUnderTest("java", command, folder) as java: java.call("producer.start", name="p", …)``."""

    def __init__(
        self, language: str, command: Sequence[str], folder: Path, *, env: dict[str, str] | None = None
    ) -> None:
        self.language, self._command, self._folder, self._env = language, command, folder, env or {}

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env={**os.environ, **self._env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process.stdout.close()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL: its connections break, without a farewell."""
        self._process.kill()
        self._process.wait()

    def call(self, op: str, **arguments: Any) -> Any:
        """The value the driver answers. Raises DriverError, TimeoutError, EOFError."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps({"op": op, **arguments}).encode() + b"\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], _ANSWER_TIMEOUT_S)[0]:
            self.kill()  # its next answer would be taken for that of another call
            raise TimeoutError(f"{op}: no response from the {self.language} driver within {_ANSWER_TIMEOUT_S} s")
        line = process.stdout.readline()
        if not line:
            raise EOFError(f"{op}: the {self.language} driver ended")
        response = json.loads(line)
        if "error" in response:
            raise DriverError(response["error"])
        return response["ok"]
