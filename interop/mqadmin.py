"""RocketMQ's mqadmin as a child process."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from interop.apache import java_command
from interop.jars import Jars

_MQADMIN_TIMEOUT_S: Final = 40


def run_mqadmin(jars: Jars, folder: Path, *args: str) -> str:
    """What a sub-command prints. A process each: some end it themselves."""
    folder.mkdir(parents=True, exist_ok=True)
    command = java_command(jars, folder, "org.apache.rocketmq.tools.command.MQAdminStartup", *args)
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=_MQADMIN_TIMEOUT_S, check=False
    )
    lines = (done.stdout + done.stderr).decode(errors="replace").splitlines()
    return "\n".join(line for line in lines if " |-" not in line)  # what its logging says of itself
