"""Command lines: what an action of a page would be in a terminal."""

from __future__ import annotations

import shlex
from typing import Final

_DEFAULT: Final = "127.0.0.1:9876"


def command_line(*words: object, nameservers: str = "") -> str:
    """``pyromq topic create orders --queues 8 -n …``, quoted for a shell; empty words are left out."""
    given = [text for word in words if (text := str(word)) != ""]
    option = "--nameserver" if given[:1] == ["tail"] else "-n"  # that of tail is the number of messages
    where = [option, nameservers] if nameservers and nameservers != _DEFAULT else []
    return shlex.join(["pyromq", *given, *where])
