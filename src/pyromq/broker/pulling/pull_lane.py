"""The pull lane: plain pulls at the beginning of a read, answered in one call, by the compiled core if there is one.

    bytes of a read ─▶ entries, stored bytes, responses       ─▶ counted, committed and sent here
                  └──▶ the first frame that is not plain, and all behind it ─▶ ``PullHandler``, as ever

It only narrows: what it answers is what ``PullHandler`` would have answered in the same way, byte for byte. It knows a
kind of pulls (group, topic, queue, flags and subscription) after ``PullHandler`` has answered one with messages and
told ``learn``; any change of topics, groups, subscriptions or settings empties it. Pulls that find nothing, and so may
wait, those for which a reset is pending, and those that read what recovery has not verified are ``PullHandler``'s. It
is closed where anything stands between requests and ``PullHandler``: quotas, a replica, a broker that stops.

With access control user and address belong to the kind: it answers what is signed by a user whom the guard has let pull
the same from the same address before. The core verifies every signature; any change of users or policies empties the
lane. Where more than signatures is asked for, it is closed. Without the core there is a lane only where nobody is asked
who they are, and a connection has it from its first pull on: reads of others need not pass it.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from pyromq.broker.base.access import AccessDeniedError, GuardedAccess
from pyromq.broker.base.request_times import SUCCESS
from pyromq.broker.base.session import Session
from pyromq.broker.base.stats import Counters
from pyromq.broker.base.window_counters import CALL, MESSAGE
from pyromq.broker.pulling.python_lane import PythonLane
from pyromq.broker.state.subscriptions import PullFilter
from pyromq.broker.state.tables import Tables
from pyromq.clock import Clock
from pyromq.compiled_core import Buffer, Core
from pyromq.compiled_core import PullLane as CoreLane
from pyromq.model.names import RETRY_PREFIX
from pyromq.model.system_names import is_run_by_broker, is_run_by_broker_group
from pyromq.net.connection import Connection
from pyromq.store.message_store import MessageStore
from pyromq.store.queue_scan import tags_of
from pyromq.wire.codes import RequestCode
from pyromq.wire.fast.responses import found_messages_pieces
from pyromq.wire.frame import FRAME_BYTES_MAX
from pyromq.wire.headers.consumer import PullHeader
from pyromq.wire.received import Received

KNOWN_MAX: Final = 16_384
"""Kinds of pulls that are known; one more, and all are forgotten."""

_TEXT_MAX: Final = 512  # of a subscription, in characters; all kinds together keep some 30 MB at most
_MISSED_MAX: Final = 3  # reads in a row
_CODE: Final = int(RequestCode.PULL_MESSAGE)
_DIGIT_AT: Final = 16  # the first of the code, in a frame as clients write it
_DIGIT: Final = ord("1")


class PullLane:
    """Owner of the core's lane, or the one in Python, which knows kinds of pulls and changes nothing."""

    def __init__(
        self,
        core: Core | None,
        store: MessageStore,
        tables: Tables,
        counters: Counters,
        clock: Clock,
        access: GuardedAccess | None,
    ) -> None:
        self._core = core
        self._store = store
        self._reader = store.reader
        self._topics = tables.topics.table
        self._groups = tables.groups.table
        self._members = tables.members
        self._progress = tables.progress
        self._counters = counters
        self._now_s = clock.monotonic_s
        self._access = access
        self.is_open = False  # by the request plan: nothing stands between requests and ``PullHandler``
        self.waiting: Container[Connection] = frozenset()  # with earlier requests that are not served yet
        self._seen = self._versions()  # of the tables and rules that what it knows follows from
        self._lane = self._new_lane()

    def _versions(self) -> tuple[object, object, int, object]:
        return self._topics.version, self._groups.version, self._members.subscriptions_version, self._rules

    @property
    def _rules(self) -> object:
        return self._access.rules if self._access is not None else None

    def renew(self, *, is_open: bool, waiting: Container[Connection]) -> None:
        """Open or close it, as the request plan says; ``waiting``: whose requests nothing may overtake."""
        self.is_open, self.waiting = is_open, waiting
        self._lane = self._new_lane()

    def _new_lane(self) -> CoreLane:
        if self._core is None:
            return PythonLane(self._reader, self._now_s)
        return self._reader.scan.new_lane(self._core, FRAME_BYTES_MAX, found_messages_pieces())

    @property
    def known(self) -> int:
        """How many kinds of pulls it knows."""
        return len(self._lane)

    def _forget_what_changed(self) -> None:
        topics, groups, subscriptions, rules = self._seen
        if (
            self._topics.version is not topics
            or self._groups.version is not groups
            or self._members.subscriptions_version != subscriptions
            or self._rules is not rules
        ):
            self._seen = self._versions()
            self._lane.forget()

    def learn(
        self, connection: Connection, request: Received[PullHeader], wanted: PullFilter, end_position: int
    ) -> None:
        """``PullHandler`` has just answered such a pull with messages, and without flags of its topic or group.

        ``end_position``: where the last of these ends in the log.
        """
        header = request.header
        if self._core is None and end_position <= self._reader.scan.plain_from:
            return  # the next ones will not be plain, either
        tags = tags_of(wanted.accept_tag)
        queue = self._store.queues.get((header.topic, header.queue_id))
        if tags is None or wanted.accept_record is not None or queue is None or not self.is_open:
            return
        if is_run_by_broker(header.topic) or is_run_by_broker_group(header.consumer_group):
            return  # these are read, never committed
        if header.topic.startswith(RETRY_PREFIX):  # filters of other topics may count there
            return
        if len(header.subscription or "") + len(header.expression_type or "") > _TEXT_MAX:  # it would be kept
            return
        self._forget_what_changed()
        signer = None
        if self._access is not None:
            signer = self._signer(self._access, connection, request)
            if signer is None:
                return
        if len(self._lane) >= KNOWN_MAX:
            self._lane.forget()
        key = (header.topic, header.consumer_group, header.queue_id)
        subscription = (header.subscription, header.sub_version, header.expression_type)
        self._lane.learn(key, header.sys_flag, subscription, queue, tags, signer)
        if self._core is None and not connection.has_fast_path:
            connection.use_fast_path(_OwnPath(self))

    def _signer(
        self, access: GuardedAccess, connection: Connection, request: Received[PullHeader]
    ) -> tuple[str, bytes, str] | None:
        """Name, secret and address of who signed a pull that the guard has let pass; None if that is not all."""
        if request.code != _CODE:
            return None
        try:
            user = access.signer_of(connection, request)
        except AccessDeniedError:  # it was admitted, and is nobody by now
            return None
        if user is None:
            return None
        return user.name, user.password.reveal().encode("utf-8", "replace"), connection.session_as(Session).peer.ip

    def take(self, connection: Connection, data: Buffer) -> int:
        """Answer the plain pulls that the data begins with; says how many bytes these are."""
        progress = self._progress
        if len(data) <= _DIGIT_AT or data[_DIGIT_AT] != _DIGIT or not self.is_open or connection in self.waiting:
            return 0
        self._forget_what_changed()
        began_s = self._now_s()
        ip = connection.session_as(Session).peer.ip if self._access is not None else None
        taken = self._lane.take(data, self._reader.lane_bounds, ip)
        if taken is None:
            return 0
        consumed, pulls = taken
        if progress.has_resets and progress.has_reset(pull[0] for pull in pulls):  # nothing has been changed so far
            return 0
        counters, messages, size_bytes = self._counters, 0, 0
        for key, pair, next_offset, committed, count, size, response, parts in pulls:
            progress.note_pulled(key, next_offset)
            if committed is not None:
                topic, group, queue_id = key
                if progress.has_room(group, topic, queue_id):
                    progress.commit(group, topic, queue_id, committed, connection)
            messages += count
            size_bytes += size
            counters.gets[pair] += CALL + count * MESSAGE + size
            if parts is None:
                connection.send(response)
            else:
                connection.send_parts(response, parts)
        counters.pulls_found += len(pulls)
        counters.pulled_messages += messages
        counters.pulled_bytes += size_bytes
        connection.frames_in += len(pulls)
        took_ms = (self._now_s() - began_s) * 1000 / len(pulls)
        counters.requests.note(_CODE, SUCCESS, took_ms, len(pulls))
        return consumed


class _OwnPath:
    """The lane of one connection, without the core.

    It is given up after some reads in a row that it could not serve: of pulls that find nothing and wait, or of sends.
    Then those do not pass it any more, until ``PullHandler`` has answered a pull of that connection at once.
    """

    __slots__ = ("_lane", "_missed")

    def __init__(self, lane: PullLane) -> None:
        self._lane = lane
        self._missed = 0

    def __call__(self, connection: Connection, data: Buffer) -> int:
        taken = self._lane.take(connection, data)
        self._missed = 0 if taken else self._missed + 1
        if self._missed == _MISSED_MAX:
            connection.use_fast_path(None)
        return taken
