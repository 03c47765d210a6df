"""Names in requests: resources with their namespaces, checked; and the texts of a message, checked.

A namespace is what it is for remoting clients: topic ``orders`` of namespace ``shop`` is ``shop%orders`` on the broker.
"""

from __future__ import annotations

import re
from typing import Final

from pyromq.broker.grpc.statuses import StatusError
from pyromq.model import property_names
from pyromq.model.names import RETRY_PREFIX, validate_group, validate_topic
from pyromq.model.namespaces import wrap
from pyromq.model.system_names import BROKER_GROUP_PREFIX, SYSTEM_PREFIX, SYSTEM_TOPICS
from pyromq.wire.grpc.codes import StatusCode
from pyromq.wire.grpc.definitions import Resource, SystemProperties

PROPERTIES_MAX: Final = 128
PROPERTY_BYTES_MAX: Final = 16 << 10  # names, values, tag and keys together
MESSAGE_GROUP_BYTES_MAX: Final = 64
_has_control = re.compile(r"[\x00-\x1f\x7f-\x9f]").search
RESERVED: Final = property_names.SET_BY_NOBODY
"""Properties that no application sets, and that are not among those of a delivered message."""


def topic_name(resource: Resource | None, namespace: str = "") -> str:
    """The topic as the broker knows it. Raises InvalidNameError, StatusError."""
    name = validate_topic(wrap(_namespace(resource, namespace), resource.name if resource else ""))
    if name in SYSTEM_TOPICS or name.startswith((SYSTEM_PREFIX, RETRY_PREFIX)):
        raise StatusError(StatusCode.ILLEGAL_TOPIC, f"topic {name} belongs to the system; use one of your own")
    return name


def group_name(resource: Resource | None, namespace: str = "") -> str:
    """The consumer group as the broker knows it. Raises InvalidNameError, StatusError."""
    name = validate_group(wrap(_namespace(resource, namespace), resource.name if resource else ""))
    if name.startswith(BROKER_GROUP_PREFIX):
        text = f"group {name} belongs to the system; use one of your own"
        raise StatusError(StatusCode.ILLEGAL_CONSUMER_GROUP, text)
    return name


def _namespace(resource: Resource | None, namespace: str) -> str:
    """Some clients give it with every name, others in the header of the call alone."""
    return (resource.resource_namespace if resource else "") or namespace


def check_properties(user: dict[str, str], system: SystemProperties) -> None:
    """Check names and sizes of a message's properties. Raises StatusError."""
    if len(user) > PROPERTIES_MAX:
        text = f"the message has {len(user)} properties, at most {PROPERTIES_MAX} are allowed"
        raise StatusError(StatusCode.MESSAGE_PROPERTIES_TOO_LARGE, text)
    for name, value in user.items():
        if name in RESERVED:
            text = f"{name!r} is not for applications; give the property another name"
            raise StatusError(StatusCode.ILLEGAL_MESSAGE_PROPERTY_KEY, text)
        if not name or _has_control(name) or _has_control(value):
            text = f"property {name!r} is empty, or has a control character in its name or value"
            raise StatusError(StatusCode.ILLEGAL_MESSAGE_PROPERTY_KEY, text)
    tag, keys = system.tag or "", system.keys
    if tag and (tag.isspace() or "|" in tag or _has_control(tag)):
        raise StatusError(StatusCode.ILLEGAL_MESSAGE_TAG, f"tag {tag!r} is blank, or has a | or a control character")
    for key in keys:
        if key and (key.isspace() or _has_control(key)):
            raise StatusError(StatusCode.ILLEGAL_MESSAGE_KEY, f"key {key!r} is blank, or has a control character")
    size = sum(len(name.encode()) + len(value.encode()) for name, value in user.items())
    size += len(tag.encode()) + sum(len(key.encode()) for key in keys)
    if size > PROPERTY_BYTES_MAX:
        text = f"properties, tag and keys have {size} bytes, at most {PROPERTY_BYTES_MAX} are allowed"
        raise StatusError(StatusCode.MESSAGE_PROPERTIES_TOO_LARGE, text)
    if _has_control(system.trace_context or ""):
        text = "the trace context has a control character: what separates properties would begin another one"
        raise StatusError(StatusCode.ILLEGAL_MESSAGE_PROPERTY_KEY, text)
    if not system.message_id.strip() or _has_control(system.message_id):
        raise StatusError(StatusCode.ILLEGAL_MESSAGE_ID, "a message needs an id: clients make one for each")


def check_message_group(name: str) -> None:
    """Check the name of a message group. Raises StatusError."""
    if name.isspace() or len(name.encode()) >= MESSAGE_GROUP_BYTES_MAX or _has_control(name):
        text = (
            f"message group {name[:80]!r} is blank, has a control character, or {MESSAGE_GROUP_BYTES_MAX} bytes or more"
        )
        raise StatusError(StatusCode.ILLEGAL_MESSAGE_GROUP, text)
