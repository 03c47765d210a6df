"""Errors of questions in SQL; their texts say what to do."""

from __future__ import annotations

from pyromq.errors import ConfigError, MQError


class SqlError(ConfigError):
    """A question that cannot be answered as it is written; the text is the engine's own, or says what is allowed."""


class PackageMissingError(ConfigError):
    """An optional package is not installed; the text has the command that installs it."""

    def __init__(self, package: str, extra: str, what: str) -> None:
        super().__init__(f"{what} needs {package}, which is not installed: run pip install 'pyromq[{extra}]'")
        self.package = package


class TableWriteError(MQError):
    """A table that cannot be written; the text is the package's own."""


class TableConflictError(MQError):
    """Other writers of the same topic to the same table were faster again and again: let one process write it."""
