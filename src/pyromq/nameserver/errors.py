"""What a name server refuses; ``service`` maps these to response codes."""

from __future__ import annotations

from pyromq.errors import ConfigError, MQError, quoted


class LimitError(MQError):
    """A well-formed request that would break a rule or a limit of the name server; nothing was changed."""


class RegistrationRefusedError(LimitError):
    """A broker may not enter the table like this."""


class UnknownTopicError(MQError):
    """No live broker keeps that topic."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"no route for topic {quoted(topic)}: no live broker has registered it")
        self.topic = topic


class KeyNotFoundError(MQError):
    """Nothing is kept under that namespace, or that key of it."""

    def __init__(self, *, namespace: str, key: str | None = None) -> None:
        what = f"namespace {quoted(namespace)}"
        super().__init__(f"nothing in {what}" if key is None else f"no key {quoted(key)} in {what}")
        self.namespace = namespace
        self.key = key


class NotSavedError(MQError):
    """The disk refused the key-value file; what was there before still holds."""


class NotServedError(MQError):
    """A request that this name server does not serve, as it is set up."""


class ProtectedSettingError(ConfigError):
    """A setting that cannot be changed over the network."""

    def __init__(self, key: str) -> None:
        super().__init__(f"setting {quoted(key)} cannot be changed over the network")
        self.key = key
