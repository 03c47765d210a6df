"""Errors as a command shows them: in words of its options, with advice where options are what is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pyromq.errors import MQError, NoPermissionError, SendFailedError

_IN_OPTIONS: Final = {
    "nameservers=…": "--nameserver HOST:PORT",
    "as nameservers": "as --nameserver",
    "delay_ms": "--delay",
    "count_max": "--count",
    "sharding_key": "--sharding-key",
    "tables={'name': 'DIR'}": "--table NAME=DIR",
}
"""What functions of Python are told, and how the same is said on a command line."""

_KEYWORDS: Final = re.compile("|".join(rf"(?<!\w){re.escape(text)}" for text in _IN_OPTIONS))
NO_CREDENTIALS: Final = (
    "no user was named: give --access-key USER and --secret-key-file FILE before the command (pyromq --access-key USER "
    "… topic ls), set PYROMQ_ACCESS_KEY and PYROMQ_SECRET_KEY, or use a context (pyromq context)"
)


def advise(error: MQError, environment: Mapping[str, str]) -> None:
    """Notes on an error what to do about it, while the environment has what options and context say."""
    if advice := advice_on(error, environment):
        error.add_note(advice)


def in_options(error: MQError) -> str:
    """The text of an error with options in the place of Python's keywords, and its notes."""
    text = _KEYWORDS.sub(lambda found: _IN_OPTIONS[found.group()], str(error))
    return "; ".join((text, *getattr(error, "__notes__", ())))


def advice_on(error: MQError, environment: Mapping[str, str]) -> str:
    """What to do about a refusal of somebody who gave no name; empty for everything else."""
    cause = error.attempts[-1].error if isinstance(error, SendFailedError) and error.attempts else error
    is_nameless = isinstance(cause, NoPermissionError) and not environment.get("PYROMQ_ACCESS_KEY")
    return NO_CREDENTIALS if is_nameless else ""
