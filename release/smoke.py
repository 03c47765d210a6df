"""What a person does first, with the built files alone: install them in a clean environment, start a broker, send.

The environment's PATH holds nothing but itself: no compiler, no cargo, no git.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from release.building import ReleaseError, run, tool
from release.local_index import serving

_READY_S: Final = 60
_TEN_LINES: Final = """
import threading
from pyromq import Message, Producer, PushConsumer

seen = threading.Event()
with Producer({address!r}, group="shop") as producer:
    receipt = producer.send(Message("orders", b"42", tags="new", keys="order-42"))
assert receipt.on_disk, receipt
with PushConsumer({address!r}, group="billing", topics="orders", start="earliest", listener=lambda message: seen.set()):
    assert seen.wait(30), "the message did not arrive"
print("sent", receipt.message_id, "and consumed")
"""


def try_with_pip(folder: Path, python: str, extras: str = "[fast]") -> str:
    """Install with pip into a new environment of ``python`` and use it; returns what ``pyromq --version`` says."""
    with tempfile.TemporaryDirectory(prefix="pyromq-smoke-") as place, serving(folder) as index:
        environment = Path(place) / "environment"
        run(python, "-m", "venv", environment)
        command = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--pre",
            "--extra-index-url",
            index,
        ]
        run(environment / "bin/python", *command, requirement(folder, extras), env=_bare(environment))
        return use(environment, Path(place))


def try_with_uv(folder: Path, python: str, extras: str = "[fast]") -> str:
    """Install with uv into a new environment and use it; then ``uvx pyromq --version`` from the same index."""
    with tempfile.TemporaryDirectory(prefix="pyromq-smoke-") as place, serving(folder) as index:
        environment, uv, wanted = Path(place) / "environment", tool("uv"), requirement(folder, extras)
        options = ["--index", index, "--index-strategy", "unsafe-best-match", "--no-cache"]
        run(uv, "venv", "--quiet", "--python", python, environment)
        run(
            uv,
            "pip",
            "install",
            "--quiet",
            "--python",
            environment / "bin/python",
            *options,
            wanted,
            env=_bare(environment),
        )
        said = use(environment, Path(place))
        alone = run(
            uv, "tool", "run", "--quiet", "--python", python, *options, "--from", wanted, "pyromq", "--version"
        ).strip()
        if alone != said:
            raise ReleaseError(f"uvx pyromq --version says {alone!r}, the environment {said!r}")
        return said


def requirement(folder: Path, extras: str) -> str:
    """What to ask the index for: the version that was built, which may be older than a published one."""
    wheel = next(folder.glob("pyromq-*.whl"))
    return f"pyromq{extras}=={wheel.name.split('-')[1]}"


def use(environment: Path, place: Path) -> str:
    """Start ``pyromq up`` of an environment, send and consume; returns its version. Raises ReleaseError."""
    said = run(environment / "bin/pyromq", "--version", env=_bare(environment)).strip()
    with _running(environment, place) as address:
        run(environment / "bin/python", "-c", _TEN_LINES.format(address=address), cwd=place, env=_bare(environment))
    return said


@contextmanager
def _running(environment: Path, place: Path) -> Iterator[str]:
    command = [
        "up",
        "--data",
        str(place / "data"),
        "--nameserver-port",
        "0",
        "--broker-port",
        "0",
        "--no-console",
        "--no-metrics",
    ]
    with (place / "up.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [environment / "bin/pyromq", *command],
            cwd=place,
            env={**os.environ, **_bare(environment)},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    try:
        ready = process.stdout.readline().split()
        parts = dict(each.split("=", 1) for each in ready[1:])
        if ready[:1] != ["ready"]:
            raise ReleaseError(
                f"pyromq up did not start: {' '.join(ready)}\n{(place / 'up.log').read_text(encoding='utf-8')}"
            )
        yield parts["nameserver"]
    finally:
        process.terminate()
        process.wait(_READY_S)
        process.stdout.close()


def _bare(environment: Path) -> Mapping[str, str]:
    return {"PATH": str(environment / "bin"), "PYTHONPATH": "", "VIRTUAL_ENV": ""}


def interpreters() -> list[str]:
    """Every CPython of this machine that PyroMQ supports, one for each minor version, oldest first."""
    found: dict[tuple[int, int], str] = {}
    folders = [
        *os.environ["PATH"].split(os.pathsep),
        *(str(each) for each in sorted((Path.home() / ".pyenv/versions").glob("*/bin"))),
    ]
    for folder in dict.fromkeys([str(Path(sys.executable).resolve().parent), *folders]):
        for minor in range(11, 30):
            program = shutil.which(f"python3.{minor}", path=folder)
            if program and (3, minor) not in found and _works(program):
                found[3, minor] = program
    return [found[key] for key in sorted(found)]


def _works(program: str) -> bool:
    """A shim of a version manager may answer for a version that is not chosen."""
    return not subprocess.run([program, "-c", "import venv, ensurepip"], capture_output=True, check=False).returncode
