"""Logs of long-running commands: lines on standard error."""

from __future__ import annotations

import logging
import sys
from typing import Any

import typer

from pyromq.errors import printable


class PrintableFormatter(logging.Formatter):
    """Names and texts of peers come into logs; none of them moves a reader's cursor or looks like another line."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802, the name is logging's
        record.message = printable(record.message).replace("\n", "\\n")
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802, likewise
        return printable(super().formatException(ei))


def log_to_stderr(level: str) -> None:
    if level.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise typer.BadParameter("expected debug, info, warning or error", param_hint="--log")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=level.upper())
