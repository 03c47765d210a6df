"""Programs on the official clients of RocketMQ 5 in Java, Go and Node.js: fetched and built once, outside of git."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from interop.jars import cache_folder

HERE = Path(__file__).parent
_BUILD_S = 900
_RUN_S = 240


def _run(command: Sequence[str | Path], folder: Path, timeout_s: int = _BUILD_S) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    return done.stdout


def _copied(language: str) -> Path:
    folder = cache_folder() / "grpc" / language
    shutil.copytree(HERE / language, folder, dirs_exist_ok=True)
    return folder


def java() -> list[str | Path]:
    """With TLS, which this client uses unless it is told otherwise."""
    folder = _copied("java")
    if not (folder / "lib").is_dir():
        _run(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"], folder)
    _run(["javac", "-cp", "lib/*", "-d", "classes", "GrpcSmoke.java"], folder)
    return ["java", "-cp", f"{folder}/classes:{folder}/lib/*", "GrpcSmoke"]


def go() -> list[str | Path]:
    """Likewise."""
    folder = _copied("go")
    _run(["go", "build", "-o", "smoke", "."], folder)
    return [folder / "smoke"]


def node() -> list[str | Path]:
    folder = _copied("node")
    if not (folder / "node_modules").is_dir():
        _run(["npm", "install", "--no-audit", "--no-fund"], folder)
    return ["node", folder / "smoke.js"]


PROGRAMS: dict[str, tuple[Callable[[], list[str | Path]], list[str]]] = {
    "java": (java, ["true"]),
    "go": (go, []),
    "node": (node, []),
}


def outcome(language: str, endpoint: str) -> dict[str, str]:
    """What a program said of each case, by the name of the case."""
    prepare, more = PROGRAMS[language]
    lines = _run([*prepare(), endpoint, *more], cache_folder(), _RUN_S).splitlines()
    return dict(line.split(": ", 1) for line in lines if ": " in line and not line.startswith("["))
