"""Functions of users, named as ``module:function``, and what a patch function may change of a message."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from pyromq.errors import ConfigError


class PatchInput(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter, given to a patch function. It returns another (``msgspec.structs.replace``), or None to leave it.

    ``topic`` is where it will be sent; ``properties`` are the application's.
    """

    topic: str
    message_id: str
    body: bytes
    keys: str = ""
    tags: str = ""
    properties: Mapping[str, str] = {}


Patch = Callable[[PatchInput], PatchInput | None]


def find_function(text: str, *, folder: Path | None = None) -> Callable[..., Any]:
    """``module:function``; modules beside ``folder`` are found too. Raises ConfigError."""
    module_name, colon, name = text.partition(":")
    if not (colon and module_name and name.isidentifier()):
        raise ConfigError(f"{text!r} is not module:function, such as fixes:mend_order")
    folder = folder or Path.cwd()
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = import_module(module_name)
    except Exception as error:  # whatever a module of the user's raises
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{text}: module {module_name} cannot be imported: {reason}") from error
    found = getattr(module, name, None)
    if found is None:
        raise ConfigError(f"{text}: module {module_name} has no {name}")
    if not callable(found):
        raise ConfigError(f"{text}: {name} is a {type(found).__name__}, not a function")
    function: Callable[..., Any] = found
    return function
