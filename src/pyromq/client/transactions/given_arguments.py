"""What a transaction is called with: a message, or a topic and a value; keywords of the message and of the send."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from pyromq.client.producer.send_arguments import TransactionArguments
from pyromq.client.producer.value_messages import ValueMessages
from pyromq.errors import ConfigError
from pyromq.model.message import Message
from pyromq.model.times import given_timeout_ms
from pyromq.typed.messages import NO_VALUE

_OF_THE_SEND: Final = TransactionArguments.__optional_keys__


LaterMessage: TypeAlias = Callable[[], Awaitable[Message]]
"""Makes a message of a value whose topic's schema has to be asked for first."""


def message_and_arguments(
    values: ValueMessages, given: Any, value: object, how: Mapping[str, Any]
) -> tuple[Message | LaterMessage, dict[str, Any]]:
    """The message, and the keywords of ``prepare``. Raises MessageRefusedError, ConfigError, TypeError."""
    arguments = {name: each for name, each in how.items() if name in _OF_THE_SEND}
    options: Any = {name: each for name, each in how.items() if name not in _OF_THE_SEND}
    arguments["timeout_ms"] = given_timeout_ms(arguments.get("timeout_ms"), arguments.pop("timeout", None))
    made = values.made_now(given, value, options)
    return made if made is not None else partial(values.made, given, value, options), arguments


def send_arguments(
    values: ValueMessages, given: Any, second: Any, third: Any, how: Mapping[str, Any]
) -> tuple[Message | LaterMessage, Any, Any, dict[str, Any]]:
    """Message, function and argument of ``send(message, execute, argument)`` or ``send(topic, value, execute)``."""
    if not isinstance(given, str):
        message, arguments = message_and_arguments(values, given, NO_VALUE, how)
        return message, second, third, arguments
    if not callable(third):
        raise ConfigError("send(topic, value, execute) needs a function that does the local work")
    message, arguments = message_and_arguments(values, given, second, how)
    return message, third, None, arguments
