"""Our Java driver as a child process: RocketMQ's Java client, one call per line of JSON."""

from __future__ import annotations

import json
import select
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from interop.apache import java_command
from interop.jars import Jars

_ANSWER_TIMEOUT_S: Final = 90
_MQADMIN_TIMEOUT_S: Final = 40


class JavaError(Exception):
    """What the Java client threw."""

    def __init__(self, facts: dict[str, Any]) -> None:
        super().__init__(f"{facts['type']}: {facts['message']}\n{facts.get('trace', '')}")
        self.kind: str = facts["type"]
        self.code: int | None = facts.get("code")
        self.message: str = facts["message"]


class JavaClient:
    """``with JavaClient(jars, folder) as java: java.call("producer.start", name="p", …)``."""

    def __init__(self, jars: Jars, folder: Path) -> None:
        self._jars, self._folder = jars, folder

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        command = java_command(self._jars, self._folder, "pyromq.interop.Driver")
        with (self._folder / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self._folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def call(self, op: str, **arguments: Any) -> Any:
        """The value the driver answers. Raises JavaError."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps({"op": op, **arguments}).encode() + b"\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], _ANSWER_TIMEOUT_S)[0]:
            raise TimeoutError(f"{op}: no answer from the Java driver within {_ANSWER_TIMEOUT_S} s")
        line = process.stdout.readline()
        if not line:
            raise EOFError(f"{op}: the Java driver ended")
        answer = json.loads(line)
        if "error" in answer:
            raise JavaError(answer["error"])
        return answer["ok"]


def run_mqadmin(jars: Jars, folder: Path, *args: str) -> str:
    """What a sub-command of mqadmin prints. A process each: some end it themselves."""
    folder.mkdir(parents=True, exist_ok=True)
    command = java_command(jars, folder, "org.apache.rocketmq.tools.command.MQAdminStartup", *args)
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=_MQADMIN_TIMEOUT_S, check=False
    )
    lines = (done.stdout + done.stderr).decode(errors="replace").splitlines()
    return "\n".join(line for line in lines if " |-" not in line)  # what its logging says of itself
