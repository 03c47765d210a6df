"""Properties of a message that is sent, as one text.

The plain form is ``property_text.join_items`` of the same names and values, and ``properties.encode_properties``, which
checks them; a ``Message`` was checked when it was made.
"""

from __future__ import annotations

from typing import Final

from pyromq.errors import PropertiesTooLargeError
from pyromq.model import property_names as names
from pyromq.model.message import Message
from pyromq.wire.properties import PROPERTIES_BYTES_MAX
from pyromq.wire.property_text import encode_text

_CHARACTER_BYTES_MAX: Final = 4
_UNIQUE_KEY: Final = names.UNIQUE_KEY + names.NAME_END
_TAGS: Final = names.TAGS + names.NAME_END
_KEYS: Final = names.KEYS + names.NAME_END
_SHARDING_KEY: Final = names.SHARDING_KEY + names.NAME_END
_PRIORITY: Final = names.PRIORITY + names.NAME_END
_NO_WAIT: Final = f"{names.WAIT}{names.NAME_END}false{names.ITEM_END}"
_DELAY: Final = names.DELAY + names.NAME_END
_TIMER_DELAY_MS: Final = names.TIMER_DELAY_MS + names.NAME_END
_TIMER_DELIVER_MS: Final = names.TIMER_DELIVER_MS + names.NAME_END


def properties_text(message: Message, unique_id: str, system: str = "") -> str:
    """All properties of a message; ``system`` is the text of those that its client adds.

    Raises PropertiesTooLargeError, LocalProtocolError.
    """
    text = f"{_UNIQUE_KEY}{unique_id}\x02{system}"
    if message.tags:
        text += f"{_TAGS}{message.tags}\x02"
    if message.keys:
        text += f"{_KEYS}{' '.join(message.keys)}\x02"
    if message.properties:
        text += "".join([f"{name}\x01{value}\x02" for name, value in message.properties.items()])
    if message.sharding_key:
        text += f"{_SHARDING_KEY}{message.sharding_key}\x02"
    if message.priority is not None:
        text += f"{_PRIORITY}{message.priority}\x02"
    if not message.wait_stored:
        text += _NO_WAIT
    if message.delay_level or message.delay_ms or message.deliver_at_ms:
        text += _delay_text(message)
    if len(text) * _CHARACTER_BYTES_MAX > PROPERTIES_BYTES_MAX:
        _check_size(text)
    return text


def _delay_text(message: Message) -> str:
    if message.delay_level:
        return f"{_DELAY}{message.delay_level}\x02"
    if message.delay_ms:
        return f"{_TIMER_DELAY_MS}{message.delay_ms}\x02"
    return f"{_TIMER_DELIVER_MS}{message.deliver_at_ms}\x02"


def _check_size(text: str) -> None:
    size = len(encode_text(text))
    if size > PROPERTIES_BYTES_MAX:
        raise PropertiesTooLargeError(what="properties", size_bytes=size, bytes_max=PROPERTIES_BYTES_MAX)
