"""Keyword options of the public constructors: names are checked, and what is given beside a settings object wins.

    Producer("10.0.0.1:9876", group="shop", retries=5, credentials=Credentials("key", "secret"), settings=OURS)
                                            └ a field of ProducerSettings   └ a field of ClientSettings

Every class has a TypedDict of its options, so a type checker knows names and types (PEP 692). At run time an unknown
name is a TypeError that says which name was probably meant.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

from pyromq.client.core.client import Client
from pyromq.client.core.settings import ClientSettings, Compression, Credentials, client_settings_of
from pyromq.errors import ConfigError, InvalidNameError
from pyromq.model.names import DEAD_LETTER_PREFIX, RETRY_PREFIX, validate_group
from pyromq.model.system_names import BROKER_GROUP_PREFIX, is_run_by_broker_group
from pyromq.model.times import Span
from pyromq.net import TlsSettings

if TYPE_CHECKING:
    from pyromq.client.core.hooks import SendHook

SettingsT = TypeVar("SettingsT")

_CLIENT_FIELDS: Final = ("credentials", "tls", "namespace", "instance_name", "schemas")


class ClientOptions(TypedDict, total=False):
    """How a client connects; every class takes these.

    ``credentials`` signs requests, ``tls`` is True or TlsSettings, ``namespace`` is put before the names of topics and
    groups, ``instance_name`` is part of the client id: one that lasts is what broadcasting members on one machine are
    distinguished by, ``schemas`` is where the schemas of topics come from: ``topic``, ``none`` or ``registry:URL``.
    ``client_settings`` has all of this and the rest (time limits, heartbeats).
    """

    client_settings: ClientSettings | None
    credentials: Credentials | None
    tls: TlsSettings | bool | None
    namespace: str | None
    instance_name: str | None
    schemas: str | None


class SendOptions(ClientOptions, total=False):
    """What producers take besides: ``hooks`` look on at every send; ``trace`` writes what was sent to RocketMQ's trace
    topic, or to the topic that it names; ``latency_fault=True`` avoids brokers that were slow or failed a while ago;
    ``nowait_retries`` is what ``retries`` is, for ``send_nowait`` alone; ``timeout`` is ``timeout_ms`` as timedelta or
    seconds."""

    hooks: Sequence[SendHook]
    trace: bool | str
    latency_fault: bool | None
    nowait_retries: int | None
    timeout: Span | None


class TransactionOptions(SendOptions, total=False):
    """Those of a transaction producer: ``confirm`` waits for the broker's response to the outcome; the others are
    fields of ``TransactionProducerSettings``."""

    confirm: bool | None
    check_workers: int | None
    checks_max: int | None
    timeout_ms: int | None
    retries: int | None
    compression: Compression | None


def check_options(owner: str, options: Mapping[str, Any], known: Any, settings: type[Any] = ClientSettings) -> None:
    """``known`` is the TypedDict of the options. Raises TypeError for a name that is not among them."""
    allowed: frozenset[str] = known.__optional_keys__
    for name in options:
        if name not in allowed:
            raise TypeError(f"{owner}() has no option {name!r}{_advice(name, allowed, settings)}")


def _advice(name: str, allowed: Iterable[str], settings: type[Any]) -> str:
    from difflib import get_close_matches  # only mistakes need it

    for kind, keyword in ((settings, "settings"), (ClientSettings, "client_settings")):
        if name in (field.name for field in fields(kind)):
            keyword = "client_settings" if kind is ClientSettings else keyword
            return f": it is a setting, give it as {keyword}={kind.__name__}({name}=…)"
    named = ("nameservers", "group", "listener", "topics", "start", "settings", "client", "check", "outbox")
    close = get_close_matches(name, (*allowed, *named, *(field.name for field in fields(settings))), n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(sorted(allowed))}"


def with_given(kind: type[SettingsT], settings: SettingsT | None, given: Mapping[str, Any]) -> SettingsT:
    """The settings, or default ones, with the fields that are given; None leaves a field as it is.

    Raises ConfigError for settings of another kind, and what the settings raise.
    """
    if settings is not None and not isinstance(settings, kind):
        raise ConfigError(f"settings must be {kind.__name__}, not {type(settings).__name__}")
    names = {field.name for field in fields(kind) if field.init}  # type: ignore[arg-type]
    chosen = {name: value for name, value in given.items() if name in names and value is not None}
    return replace(settings, **chosen) if settings else kind(**chosen)  # type: ignore[type-var]


def client_for(nameservers: str | Sequence[str], client: Client | None, options: Mapping[str, Any]) -> Client:
    """The client that is shared, or one of its own. Raises ConfigError, also when both are asked for."""
    given = {name: options.get(name) for name in _CLIENT_FIELDS}
    settings: ClientSettings | None = options.get("client_settings")
    if client is None:
        return Client(with_given(ClientSettings, client_settings_of(nameservers, settings), given))
    if not isinstance(client, Client):
        kind = f"{type(client).__module__}.{type(client).__qualname__}"
        raise ConfigError(f"client must be a Client of the same module (pyromq or pyromq.aio), not {kind}")
    beside = [name for name, value in given.items() if value is not None]
    beside += ["client_settings"] * (settings is not None) + ["nameservers"] * bool(nameservers)
    if beside:
        raise ConfigError(f"{', '.join(beside)} given beside client: a shared client has its own connections")
    return client


def check_callable(what: str, function: object, argument: str, *, also_with: str = "") -> None:
    """Check that a function can be called with one argument, or with two where ``also_with`` names them. Raises
    ConfigError.
    """
    if not callable(function):
        raise ConfigError(f"{what} must be a function or a coroutine function, not {function!r}")
    try:
        signature = inspect.signature(function, follow_wrapped=False)  # a wrapper may add arguments
    except (TypeError, ValueError):  # some built-in functions say nothing about themselves
        return
    try:
        signature.bind(None)
    except TypeError as error:
        if also_with and _can_bind(signature, 2):
            return
        name = getattr(function, "__qualname__", type(function).__qualname__)
        raise ConfigError(f"{what} is called with {argument} alone; {name}{signature} does not fit") from error


def _can_bind(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def checked_group(group: object) -> str:
    """The name of a group as an application may use it. Raises InvalidNameError."""
    name = validate_group(group)  # type: ignore[arg-type]
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if name.startswith(prefix):
            text = f"brokers put {prefix} before the names of groups themselves; use the name without it"
            raise InvalidNameError(kind="group", name=name, reason=text)
    if is_run_by_broker_group(name):
        raise InvalidNameError(kind="group", name=name, reason=f"{BROKER_GROUP_PREFIX} is for groups of the system")
    return name
