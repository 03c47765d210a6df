"""Lines as mqadmin prints them: fixed columns, times in the zone of this machine, versions as V5_3_3."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from pyromq.cli import clock
from pyromq.cli.output.tables import shown
from pyromq.cli.output.times import parse_time

if TYPE_CHECKING:
    from pyromq.aio import ReceivedMessage

_FIRST_RELEASE: Final = 213  # 4.0.0; each release has its snapshot before it, and each minor version ten releases
_mqadmin_time = re.compile(r"(\d{4}-\d\d-\d\d)#(\d\d:\d\d:\d\d)(?::(\d{3}))?").fullmatch


def line(form: str, *values: object) -> None:
    """``line("%-32s  %s", name, value)``: what comes from servers cannot move the cursor."""
    click.echo((form % tuple(shown(value) if isinstance(value, str) else value for value in values)).rstrip())


def time_text(time_ms: int) -> str:
    """``2026-11-16 03:11:36``; N/A for a time that is not known."""
    if time_ms <= 0:
        return "N/A"
    return datetime.fromtimestamp(time_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def exact_time_text(time_ms: int) -> str:
    """``2026-11-16 03:11:36,145``; empty for a time that is not known."""
    return f"{time_text(time_ms)},{time_ms % 1000:03}" if time_ms > 0 else ""


def time_in(text: str) -> int:
    """``now``, milliseconds, ``yyyy-MM-dd#HH:mm:ss:SSS`` in the zone of this machine; whatever else we take as well.

    Raises BadParameter.
    """
    if found := _mqadmin_time(text.strip()):
        day, hour, milliseconds = found.groups()
        try:
            at = datetime.fromisoformat(f"{day}T{hour}").astimezone()
        except ValueError as error:
            raise click.BadParameter(f"{text!r} is not a time: {error}") from error
        return int(at.timestamp() * 1000) + int(milliseconds or 0)
    return parse_time(text, clock.now_ms())


def version_text(ordinal: int) -> str:
    """Name of the RocketMQ version with that number."""
    if ordinal < _FIRST_RELEASE - 1:
        return f"V3({ordinal})"
    release, is_release = divmod(ordinal - _FIRST_RELEASE + 1, 2)
    major, minor = divmod(release // 10, 10)
    name = f"V{4 + major}_{minor}_{release % 10}"
    return name if is_release else f"{name}_SNAPSHOT"


def properties_text(properties: dict[str, str]) -> str:
    """Format properties as Java writes a map."""
    return "{" + ", ".join(f"{name}={value}" for name, value in properties.items()) + "}"


def message_text(message: ReceivedMessage) -> str:
    """Format a message as Java writes a MessageExt, without the bytes of the body, which follow as text."""
    facts: dict[str, Any] = {
        "brokerName": message.broker,
        "queueId": message.queue_id,
        "storeSize": len(message.record),
        "queueOffset": message.offset,
        "sysFlag": message.sys_flag,
        "bornTimestamp": message.born_ms,
        "bornHost": f"/{message.born_host}",
        "storeTimestamp": message.stored_ms,
        "storeHost": f"/{message.store_host}",
        "msgId": message.offset_message_id,
        "commitLogOffset": message.position,
        "reconsumeTimes": message.delivery_attempt,
        "preparedTransactionOffset": message.prepared_position,
    }
    text = ", ".join(f"{name}={value}" for name, value in facts.items())
    properties = properties_text(dict(message.properties))
    inner = f"Message{{topic='{message.topic}', flag={message.flag}, properties={properties}}}"
    return f"MSGID: {message.message_id} MessageExt [{text}, toString()={inner}]"


def body_shown(message: ReceivedMessage, charset: str = "UTF-8") -> str:
    """Decode the body for people. Raises BadParameter for a charset that Python does not know."""
    try:
        return message.body.decode(charset, "backslashreplace")
    except LookupError as error:
        raise click.BadParameter(f"{charset!r} is not a character set") from error
