"""Edits: a dead letter that is sent again with another body, other keys, tags or properties.

The copy keeps its id and its mark (``REDRIVEN_FROM``), so it counts as the redrive of its letter, and a second redrive
finds it. What is not edited stays: order key, priority, delay marks of the application.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec

from pyromq.errors import ConfigError
from pyromq.model import property_names as names
from pyromq.operate.resend.outgoing import COPIED_FROM, REDRIVEN_FROM, Outgoing

EDITED_BYTES_MAX: Final = 64 << 10  # of a body: jobs keep it in their record
_KEPT_MARKS: Final = (names.UNIQUE_KEY, REDRIVEN_FROM, COPIED_FROM)


class LetterEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What a letter shall be when it is sent again. ``properties`` are all those of the application."""

    body: bytes
    tags: str = ""
    keys: tuple[str, ...] = ()
    properties: dict[str, str] = {}


def own_properties(given: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a message that the application gave it and may edit."""
    hidden = {*names.RESERVED, *_KEPT_MARKS}
    return {name: value for name, value in given.items() if name not in hidden}


def check_edit(edit: LetterEdit) -> None:
    """Raise ConfigError for names that belong to the system, and for keys with spaces."""
    if taken := sorted(set(edit.properties) & {*names.RESERVED, *_KEPT_MARKS}):
        raise ConfigError(f"these properties belong to the system: {', '.join(taken)}")
    if any(not key or " " in key for key in edit.keys):
        raise ConfigError("a key has no spaces: they stand between keys")


def edited(message: Outgoing, edit: LetterEdit) -> Outgoing:
    """Return the copy with what the edit says. Raises ConfigError for an edit that cannot be."""
    check_edit(edit)
    before = dict(message.properties)
    own = own_properties(before)
    kept = {name: value for name, value in before.items() if name not in own and name not in (names.KEYS, names.TAGS)}
    chosen = {names.KEYS: " ".join(edit.keys), names.TAGS: edit.tags}
    kept |= {name: value for name, value in chosen.items() if value}
    return replace(message, body=edit.body, sys_flag=0, properties=tuple({**kept, **edit.properties}.items()))
