"""The clients that can be under test, started when a test asks for them."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from interop.apache import java_command
from interop.driver import ClientUnderTest
from interop.golang import go_driver
from interop.jars import Jars
from interop.process import python_path

LANGUAGES: Final = ("java", "go", "pyromq")


class Drivers:
    """One long-lived driver per language, and others that may be killed. ``close`` ends all of them."""

    def __init__(self, jars: Jars, folder: Path) -> None:
        self._jars, self._folder = jars, folder
        self._shared: dict[str, ClientUnderTest] = {}
        self._running, self._count = ExitStack(), 0

    def get(self, language: str) -> ClientUnderTest:
        """The shared one; a new one if it has died."""
        known = self._shared.get(language)
        if known is None or not known.is_running:
            known = self._shared[language] = self.fresh(language)
        return known

    def fresh(self, language: str) -> ClientUnderTest:
        """A process of its own."""
        self._count += 1
        folder = self._folder / f"{language}{self._count}"
        client = ClientUnderTest(language, self._command(language, folder), folder, env=self._environment(folder))
        return self._running.enter_context(client)

    def close(self) -> None:
        self._running.close()

    def _command(self, language: str, folder: Path) -> list[str]:
        match language:
            case "java":
                return java_command(self._jars, folder, "pyromq.interop.Driver")
            case "go":
                return [str(go_driver())]
            case _:
                return [sys.executable, "-m", "interop.python_driver"]

    def _environment(self, folder: Path) -> dict[str, str]:
        """Our own modules, and a home of its own for what clients keep there (offsets of broadcasting, logs)."""
        return {"PYTHONPATH": python_path(), "HOME": str(folder), "ROCKETMQ_GO_LOG_LEVEL": "warn"}
