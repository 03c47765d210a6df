"""What a consumer says about itself, in the sections of RocketMQ's ``consumerStatus``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyromq.model.queue import QueueId

_PLACE = "%-64s  %-32s  %-4s  %s"
_RATES = "%-64s  %14s %14s %14s %14s %18s %25s"


def running_info_lines(body: bytes) -> Iterator[str]:
    """The lines of all sections. Raises RemoteProtocolError for a body that is no running info."""
    from pyromq.wire.json import java_json

    fields = java_json.parse(body)
    yield "#Consumer Properties#"
    yield from _pairs(fields.get("properties") or {})
    yield from ("", "", "#Consumer Subscription#")
    for number, each in enumerate(fields.get("subscriptionSet") or (), 1):
        facts = (number, each.get("topic"), _java(each.get("classFilterMode", False)), each.get("subString"))
        yield "{:03} Topic: {:<40} ClassFilter: {:<8} SubExpression: {}".format(*facts)
    queues, popped = _by_queue(fields.get("mqTable")), _by_queue(fields.get("mqPopTable"))
    yield from ("", "", "#Consumer Offset#", _PLACE % ("#Topic", "#Broker Name", "#QID", "#Consumer Offset"))
    for queue, info in queues:
        yield _PLACE % (queue.topic, queue.broker, queue.number, info.get("commitOffset", 0))
    yield from _details("#Consumer MQ Detail#", "ProcessQueueInfo [%s]", queues)
    yield from _details("#Consumer Pop Detail#", "PopProcessQueueInfo [%s]", popped)
    yield from ("", "", "#Consumer RT&TPS#")
    titles = ("#Topic", "#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS", "#ConsumeFailed TPS")
    yield _RATES % (*titles, "#ConsumeFailedMsgsInHour")
    for topic, rates in sorted((fields.get("statusTable") or {}).items()):
        names = ("pullRT", "pullTPS", "consumeRT", "consumeOKTPS", "consumeFailedTPS")
        shown = (f"{float(rates.get(name, 0)):.2f}" for name in names)
        yield _RATES % (topic, *shown, rates.get("consumeFailedMsgs", 0))
    yield from ("", "", "#User Consume Info#", *_pairs(fields.get("userConsumerInfo") or {}))
    if fields.get("jstack"):
        yield from ("", "", "#Consumer jstack#", *str(fields["jstack"]).splitlines())


def _pairs(table: Mapping[str, Any]) -> Iterator[str]:
    return (f"{name:<40}: {value}" for name, value in sorted(table.items()))


def _details(title: str, form: str, queues: list[tuple[QueueId, dict[str, Any]]]) -> Iterator[str]:
    yield from ("", "", title, _PLACE % ("#Topic", "#Broker Name", "#QID", "#ProcessQueueInfo"))
    for queue, info in queues:
        facts = ", ".join(f"{name}={_shown(name, value)}" for name, value in _in_order(info))
        yield _PLACE % (queue.topic, queue.broker, queue.number, form % facts)


def _in_order(info: dict[str, Any]) -> list[tuple[str, Any]]:
    """Order the fields as RocketMQ prints them; others come behind."""
    import msgspec

    from pyromq.client.consumer.base.running_info import PopQueueInfo, QueueInfo

    known = [each.encode_name for kind in (QueueInfo, PopQueueInfo) for each in msgspec.structs.fields(kind)]
    return sorted(info.items(), key=lambda pair: known.index(pair[0]) if pair[0] in known else len(known))


def _shown(name: str, value: Any) -> object:
    """Times as RocketMQ writes them: year to millisecond, without a mark between them."""
    if name.endswith("Timestamp") and isinstance(value, int):
        return datetime.fromtimestamp(value / 1000).astimezone().strftime("%Y%m%d%H%M%S") + f"{value % 1000:03}"
    return _java(value)


def _by_queue(table: Any) -> list[tuple[QueueId, dict[str, Any]]]:
    from pyromq.model.queue import QueueId
    from pyromq.operate.consumers.members import queue_key
    from pyromq.wire.json import java_json

    keyed = {queue_key(key): value for key, value in (table or {}).items()}
    return sorted(java_json.convert(keyed, dict[QueueId, dict[str, Any]]).items())


def _java(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value
