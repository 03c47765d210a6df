"""Offset resets: moving a group to another place of a topic.

    server side (the default)   the new offset is remembered: it counts at once, and the next pull is notified of it
    through the clients         each connected member is notified (220), commits the new offsets and starts anew

A request may ask for both: then members that understand it do not wait for their next pull.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

import msgspec

from pyromq.broker.base.long_responses import Steps, encoded, pieces
from pyromq.broker.base.refusals import RefusedError, queue_out_of_range
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.system_names import refuse_change
from pyromq.broker.state.members import ConnectedMember
from pyromq.broker.state.tables import Tables
from pyromq.errors import MQError
from pyromq.model.queue import QueueId
from pyromq.net.connection import Connection
from pyromq.store.message_store import MessageStore
from pyromq.wire.codes import VERSION_OFFSET_RESET, Language, RequestCode, ResponseCode
from pyromq.wire.headers.shared import ResetOffsetHeader
from pyromq.wire.json import bodies
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

_LATEST = -1
PUSHED_QUEUES_MAX: Final = 2_048


class ResetHandler:
    """Handler of offset resets (INVOKE_BROKER_TO_RESET_OFFSET). Request 222."""

    def __init__(self, store: MessageStore, tables: Tables, settings: BrokerSettings) -> None:
        self._store = store
        self._topics = tables.topics
        self._groups = tables.groups
        self._progress = tables.progress
        self._members = tables.members
        self._settings = settings

    def reset(self, connection: Connection, request: Received[ResetOffsetHeader]) -> Steps:
        """All queues at once, when all of their new offsets are known."""
        header = request.header
        refuse_change(topic=header.topic, group=header.group)
        config = self._topics.require(header.topic)
        self._groups.require_known(header.group)
        numbers = self._numbers(header, config.read_queue_nums)
        pushes = header.push_to_clients or not self._settings.server_side_reset
        if pushes and len(numbers) > PUSHED_QUEUES_MAX:
            text = f"clients cannot be told of {len(numbers)} queues at once, at most {PUSHED_QUEUES_MAX}"
            raise RefusedError(ResponseCode.INVALID_PARAMETER, f"{text}: reset queue by queue")
        queues: dict[QueueId, int] = {}
        for piece in pieces(numbers):
            for number in piece:
                queues[QueueId(header.topic, self._settings.name, number)] = self._offset(header, number)
            yield None
        offsets = bodies.ResetOffsets(offset_table=queues)
        if not self._settings.server_side_reset:
            self._push(header, offsets, self._all_members(header.group))
        else:
            for queue, offset in queues.items():
                self._progress.reset(header.group, header.topic, queue.number, offset)
            if header.push_to_clients:
                self._push(header, offsets, self._able_members(header.group))
        if request.language is Language.CPP:
            return partial(bodies.encode_reset_list, offsets)
        return (yield from encoded(offsets, "offset_table"))

    def _numbers(self, header: ResetOffsetHeader, count: int) -> range:
        if header.queue_id < 0:
            return range(count)
        if header.queue_id >= count:
            raise queue_out_of_range(header.queue_id, header.topic, count)
        return range(header.queue_id, header.queue_id + 1)

    def _offset(self, header: ResetOffsetHeader, number: int) -> int:
        known = self._store.reader.range_of(header.topic, number)
        first, end = known if known else (0, 0)
        if header.offset is not None and header.offset >= 0:
            if not first <= header.offset <= end:
                text = f"offset {header.offset} of queue {number} of {header.topic} is outside [{first}, {end}]"
                raise RefusedError(ResponseCode.SYSTEM_ERROR, text)
            return header.offset
        if header.timestamp == _LATEST:
            return end
        by_time = self._store.reader.offset_by_time(header.topic, number, header.timestamp)
        current = self._progress.committed(header.group, header.topic, number)
        return by_time if header.is_force or current is None else min(by_time, current)

    # --- telling clients ---

    def _able_members(self, group: str) -> list[ConnectedMember[Connection]]:
        live = self._members.consumer_group(group)
        members = live.members.values() if live else ()
        return [member for member in members if member.version >= VERSION_OFFSET_RESET]

    def _all_members(self, group: str) -> list[ConnectedMember[Connection]]:
        """All of them must be able to: a reset that only some carry out would be undone by the others."""
        live = self._members.consumer_group(group)
        if live is None:
            problem = f"no consumer of group {group} is connected to this broker"
            text = f"{problem}, and only clients reset offsets here (useServerSideResetOffset is off)"
            raise RefusedError(ResponseCode.CONSUMER_NOT_ONLINE, text)
        able = self._able_members(group)
        if len(able) < len(live.members):
            text = f"some clients of group {group} are too old to reset offsets"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, text)
        return able

    def _push(
        self, header: ResetOffsetHeader, offsets: bodies.ResetOffsets, members: list[ConnectedMember[Connection]]
    ) -> None:
        notice = msgspec.structs.replace(header, push_to_clients=None)
        encoded: dict[bool, bytes] = {}  # once for all members of a kind
        for member in members:
            as_list = member.language == Language.CPP.name
            if as_list not in encoded:
                encoded[as_list] = _encode(offsets, as_list)
            try:
                member.connection.request_oneway(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, notice, encoded[as_list])
            except MQError as error:  # it goes, and comes back to the offsets that the broker has
                logger.info("client not told of a reset: client=%s reason=%s", member.client_id, error)


def _encode(offsets: bodies.ResetOffsets, as_list: bool) -> bytes:
    return bodies.encode_reset_list(offsets) if as_list else bodies.encode(offsets)
