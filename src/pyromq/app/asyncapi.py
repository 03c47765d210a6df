"""An AsyncAPI 3 document of an app: channels (topics), operations (listeners, declared sends), messages, schemas.

channels.orders.messages.Order ──$ref──▶ components.messages.Order.payload ──$ref──▶ components.schemas.Order
operations.bill: action receive, channel, messages; what is RocketMQ's (group, tags, order) is in x-rocketmq
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyromq.app.listeners import AppListener
from pyromq.app.run import DEFAULT_NAME, Built
from pyromq.app.signatures import MISSING, Signature, item_type
from pyromq.client.core.settings import client_settings_of
from pyromq.errors import ConfigError
from pyromq.typed import describe

if TYPE_CHECKING:
    from pyromq.app.app import App

VERSION: Final = "3.0.0"
_PROTOCOL: Final = "rocketmq"
_NOT_IN_KEYS: Final = re.compile(r"[^A-Za-z0-9._-]")
_DEFS: Final = "#/$defs/"


@dataclass(frozen=True, slots=True)
class Declared:
    """Something that an app says it sends."""

    topic: str
    kind: Any
    tags: str = ""
    description: str = ""


def document(app: App, built: Built, *, version: str, description: str) -> dict[str, Any]:
    """Describe the app as an AsyncAPI document. Raises ConfigError for a type that has no schema."""
    pages = _Pages()
    for listener, signature in zip(app.listeners, built.listeners, strict=True):
        pages.receive(listener, signature)
    for declared in app.declared:
        pages.send(declared)
    info = {"title": app.name or DEFAULT_NAME, "version": version, "description": description}
    return _without_empty(
        {
            "asyncapi": VERSION,
            "info": _without_empty(info),
            "defaultContentType": "application/json",
            "servers": _servers(app),
            "channels": pages.channels,
            "operations": pages.operations,
            "components": _without_empty({"messages": pages.messages, "schemas": pages.schemas}),
        }
    )


def _servers(app: App) -> dict[str, Any]:
    """Name servers that the app itself names; those of an environment are not part of it."""
    if not app.nameservers:
        return {}
    hosts = client_settings_of(app.nameservers, None).nameservers
    return {f"nameserver{at}": {"host": host, "protocol": _PROTOCOL} for at, host in enumerate(hosts, 1)}


@dataclass(slots=True)
class _Pages:
    channels: dict[str, Any] = field(default_factory=dict)
    operations: dict[str, Any] = field(default_factory=dict)
    messages: dict[str, Any] = field(default_factory=dict)
    schemas: dict[str, Any] = field(default_factory=dict)

    def receive(self, listener: AppListener, signature: Signature) -> None:
        kind = signature.body
        if listener.is_batch and kind is not MISSING:
            kind = item_type(signature.what, kind)
        settings = listener.settings
        facts = {
            "group": listener.group,
            "tags": "" if listener.tags == "*" else listener.tags,
            "sql": listener.sql,
            "orderly": settings.orderly,
            "broadcast": settings.broadcast,
            "batch": settings.batch_max if listener.is_batch else 0,
        }
        text = inspect.getdoc(listener.function) or ""
        reply = {"address": {"location": "$message.header#/REPLY_TO_CLIENT"}} if listener.replies else {}
        for topic in listener.topics:
            name = getattr(listener.function, "__name__", "listener")
            key = name if len(listener.topics) == 1 else f"{name}-{topic}"
            more = {**_said(text), "reply": reply, f"x-{_PROTOCOL}": _without_empty(facts)}
            self._operation("receive", key, topic, kind, more)

    def send(self, declared: Declared) -> None:
        facts = _without_empty({"tags": declared.tags})
        more = {**_said(declared.description), f"x-{_PROTOCOL}": facts}
        self._operation("send", f"send-{declared.topic}", declared.topic, declared.kind, more)

    def _operation(self, action: str, name: str, topic: str, kind: Any, more: Mapping[str, Any]) -> None:
        channel, message = _key(topic), self._message(topic, kind)
        found = self.channels.setdefault(channel, {"address": topic, "messages": {}})
        found["messages"][message] = {"$ref": f"#/components/messages/{message}"}
        operation = {
            "action": action,
            "channel": {"$ref": f"#/channels/{channel}"},
            **more,
            "messages": [{"$ref": f"#/channels/{channel}/messages/{message}"}],
        }
        self.operations[_unused(_key(name), self.operations)] = _without_empty(operation)

    def _message(self, topic: str, kind: Any) -> str:
        """Listeners that take the message as it is say nothing about its body."""
        if kind is MISSING:
            key = _key(f"{topic}-message")
            self.messages[key] = {"name": key, "contentType": "application/octet-stream"}
            return key
        about = describe(kind)
        key = _key(about.schema or f"{topic}-{getattr(kind, '__name__', 'body')}")
        body = _without_empty({"name": about.schema or key, "contentType": about.content_type})
        if about.json_schema:
            body["payload"] = self._schema(key, about.json_schema)
        if self.messages.setdefault(key, body) != body:
            raise ConfigError(f"two types of messages are called {key}: rename one of them")
        return key

    def _schema(self, name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Definitions inside it move to the components; a type that is nothing but one of them is that one."""
        moved: dict[str, Any] = _moved(dict(schema))
        for each, definition in moved.pop("$defs", {}).items():
            self._add(_key(each), definition)
        if set(moved) == {"$ref"}:
            return moved
        self._add(name, moved)
        return {"$ref": f"#/components/schemas/{name}"}

    def _add(self, name: str, schema: Any) -> None:
        if self.schemas.setdefault(name, schema) != schema:
            raise ConfigError(f"two types of messages have parts called {name}: rename one of them")


def _moved(schema: Any) -> Any:
    """With references to where the components have the definitions."""
    if isinstance(schema, list):
        return [_moved(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _moved(value) for name, value in schema.items()}
    reference = found.get("$ref")
    if isinstance(reference, str) and reference.startswith(_DEFS):
        found["$ref"] = f"#/components/schemas/{_key(reference.removeprefix(_DEFS))}"
    return found


def _said(text: str) -> dict[str, str]:
    first, _, rest = text.strip().partition("\n")
    return {"summary": first.strip(), "description": rest.strip()}


def _key(text: str) -> str:
    return _NOT_IN_KEYS.sub("_", text)


def _unused(name: str, taken: Mapping[str, Any]) -> str:
    found, number = name, 2
    while found in taken:
        found, number = f"{name}-{number}", number + 1
    return found


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in ("", {}, [], False, 0, None)}
