"""Pulling: messages of a queue from an offset on, or a wait for the next one.

The body of the response is stored bytes as they lie in the log. A pull that finds nothing new and may wait is held
until a message arrives that its filter accepts, or until its time is over; then it gets its final response.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from pyromq.broker.base.access import GuardedAccess
from pyromq.broker.base.environment import Environment
from pyromq.broker.base.refusals import RefusedError, queue_out_of_range
from pyromq.broker.base.request_times import HELD, SUCCESS
from pyromq.broker.base.responses import send_failure, send_refusal
from pyromq.broker.base.stats import Counters
from pyromq.broker.base.system_names import refuse_change
from pyromq.broker.base.window_counters import CALL, MESSAGE
from pyromq.broker.commit.touched import Touched
from pyromq.broker.pulling.pull_lane import PullLane
from pyromq.broker.pulling.pull_waiters import HeldPull, PullWaiters
from pyromq.broker.state.subscriptions import (
    EVERYTHING,
    PullFilter,
    compiled,
    filter_of,
    from_expression,
    is_by_tags,
    record_filter,
    refuse_sql_unless,
    retry_filter,
    tag_filter,
)
from pyromq.broker.state.tables import Tables
from pyromq.compiled_core import core
from pyromq.model.names import retry_topic
from pyromq.model.topic import GroupConfig, Perm, TopicConfig
from pyromq.net.connection import UNJOINED_BYTES, Connection
from pyromq.security.errors import AccessDeniedError
from pyromq.store.message_store import MessageStore
from pyromq.store.read_result import ReadResult, ReadStatus
from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import encode_response_head
from pyromq.wire.fast.responses import found_messages_head
from pyromq.wire.flags import ForbiddenType, PullFlag
from pyromq.wire.frame import SerializeType
from pyromq.wire.headers.consumer import PullHeader, PullResponseHeader
from pyromq.wire.json.heartbeat import TAG_EXPRESSION, MessageModel, Subscription
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

_READ: Final = int(Perm.READ)
_COMMIT, _SUSPEND, _SUBSCRIPTION = int(PullFlag.COMMIT_OFFSET), int(PullFlag.SUSPEND), int(PullFlag.SUBSCRIPTION)
_CODES: Final = {
    ReadStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}
_RECHECKED_PER_TICK: Final = 2_000  # some 20 ms of signatures
_FOUND: Final = ReadStatus.FOUND
_SUCCESS: Final = ResponseCode.SUCCESS
_NOT_FOUND: Final = ResponseCode.PULL_NOT_FOUND
_JSON: Final = SerializeType.JSON
_PLAIN_BYTES: Final = 8 << 20  # of records in a response, far from the limit of a frame
_MASTER: Final = 0
_ALL: Final = PullFilter()
_BY_TAGS: Final = (TAG_EXPRESSION, None)

Charge = Callable[[Connection, Received[PullHeader], ReadResult], None]
"""Counts messages that a reader gets."""


class PullHandler:
    """Handler of pulls (PULL_MESSAGE, LITE_PULL_MESSAGE). Requests 11 and 361."""

    def __init__(
        self, environment: Environment, tables: Tables, store: MessageStore, waiters: PullWaiters, counters: Counters
    ) -> None:
        self._filters = tables.filters
        self._counters = counters
        self._store = store
        self._topics = tables.topics
        self._groups = tables.groups
        self._members = tables.members
        self._progress = tables.progress
        self._waiters = waiters
        self._settings = environment.settings
        self._clock = environment.clock
        self._access = environment.access
        self._authority = environment.authority
        self.charge: Charge | None = None  # of quotas: hears of what is read
        self._suggests = self._settings.replication.replica_reads  # clients are informed where to read
        self.master_is_near: Callable[[], bool] | None = None  # of a replica: whether it follows a master now
        self._to_recheck: list[HeldPull] = []  # the rules have changed since these were admitted
        self.lane: PullLane | None = None
        access = self._access if isinstance(self._access, GuardedAccess) else None
        if core is not None or access is None:
            self.lane = PullLane(core, store, tables, counters, environment.clock, access)

    def pull(self, connection: Connection, request: Received[PullHeader]) -> None:
        header = request.header
        group, topic = self._checked(header)
        wanted = self._wanted(header, group)
        commits = header.sys_flag & _COMMIT
        if commits:
            refuse_change(topic=header.topic, group=header.consumer_group)
        reset = self._progress.take_reset(header.consumer_group, header.topic, header.queue_id)
        if reset is not None:
            self._reset_response(connection, request, reset)
            return
        result = self._read(header, header.queue_offset, wanted)
        if commits and header.commit_offset <= result.end:  # one beyond it is not believed
            if self._progress.has_room(header.consumer_group, header.topic, header.queue_id):
                key = header.consumer_group, header.topic, header.queue_id
                self._progress.commit(*key, header.commit_offset, connection)
        code = self._code(header, result)
        if self.master_is_near is not None and code is not _SUCCESS:
            code, result = self._of_a_replica(header, code, result)
        if code is _NOT_FOUND and header.sys_flag & _SUSPEND and not self._waiters.full:
            self._hold(connection, request, wanted)
            return
        self._respond(connection, request, code, result, topic, group)
        if self.lane is not None and code is _SUCCESS and not (topic.topic_sys_flag or group.group_sys_flag):
            self.lane.learn(connection, request, wanted, result.end_position)

    @property
    def is_plain(self) -> bool:
        """Nothing but ``pull`` itself looks at what it answers."""
        return self.charge is None and not self._suggests and self.master_is_near is None

    # --- checks ---

    def _checked(self, header: PullHeader) -> tuple[GroupConfig, TopicConfig]:
        if not self._settings.permission & _READ:
            text = f"broker {self._settings.name} does not allow reads at the moment"
            raise self._forbidden(ForbiddenType.BROKER, text)
        group = self._groups.require(header.consumer_group)
        if not group.consume_enable:
            raise self._forbidden(ForbiddenType.GROUP, f"group {header.consumer_group} is not allowed to consume")
        topic = self._topics.require(header.topic)
        if not topic.perm & _READ:
            raise self._forbidden(ForbiddenType.TOPIC, f"topic {header.topic} is not readable")
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise queue_out_of_range(header.queue_id, header.topic, topic.read_queue_nums)
        return group, topic

    def _forbidden(self, kind: ForbiddenType, remark: str) -> RefusedError:
        ext = {"forbiddenType": str(int(kind))}
        return RefusedError(ResponseCode.NO_PERMISSION, f"{remark} (forbidden by the {kind.name.lower()})", ext)

    def _subscription(self, header: PullHeader, group: GroupConfig) -> Subscription:
        if header.sys_flag & _SUBSCRIPTION:
            return from_expression(header.topic, header.subscription, header.expression_type, header.sub_version)
        live = self._members.consumer_group(header.consumer_group)
        if live is None:
            text = f"group {header.consumer_group} has no members here yet; its heartbeat has not arrived"
            raise RefusedError(ResponseCode.SUBSCRIPTION_NOT_EXIST, text)
        if live.model is MessageModel.BROADCASTING and not group.consume_broadcast_enable:
            text = f"group {header.consumer_group} is not allowed to broadcast"
            raise self._forbidden(ForbiddenType.BROADCASTING, text)
        if not self._groups.may_read(header.consumer_group, header.topic):
            text = f"group {header.consumer_group} is not allowed to read topic {header.topic}"
            raise self._forbidden(ForbiddenType.SUBSCRIPTION, text)
        subscription = live.subscriptions.get(header.topic)
        if subscription is None:
            text = f"group {header.consumer_group} does not subscribe to topic {header.topic}"
            raise RefusedError(ResponseCode.SUBSCRIPTION_NOT_EXIST, text)
        if subscription.sub_version < header.sub_version:
            text = f"the newest subscription of group {header.consumer_group} has not arrived yet"
            raise RefusedError(ResponseCode.SUBSCRIPTION_NOT_LATEST, text)
        return subscription

    def _wanted(self, header: PullHeader, group: GroupConfig) -> PullFilter:
        """Which messages the pull shall see; raises RefusedError when that is not known, or not possible."""
        if header.sys_flag & _SUBSCRIPTION and header.subscription == EVERYTHING and not self._settings.filter_retries:
            if header.expression_type in _BY_TAGS:  # what most pulls say that say it themselves
                return _ALL
        subscription = self._subscription(header, group)
        if is_by_tags(subscription):
            is_retries = self._settings.filter_retries and header.topic == retry_topic(header.consumer_group)
            by_origin = retry_filter(self._filters, header.consumer_group) if is_retries else None
            return PullFilter(tag_filter(subscription), by_origin)
        if header.sys_flag & _SUBSCRIPTION:
            sql = compiled(subscription)
        else:
            sql = filter_of(self._filters, header.consumer_group, subscription, header.sub_version)
        refuse_sql_unless(self._settings.property_filter)
        return PullFilter(accept_record=None if subscription.class_filter_mode else record_filter(sql))

    # --- reading and responding ---

    def _read(self, header: PullHeader, offset: int, wanted: PullFilter) -> ReadResult:
        result = self._store.reader.read(
            header.topic,
            header.queue_id,
            offset,
            count_max=header.max_msg_nums,
            bytes_max=header.max_msg_bytes,
            accept_tag=wanted.accept_tag,
            accept_record=wanted.accept_record,
        )
        self._progress.note_pull(header.consumer_group, header.topic, header.queue_id, result.next_offset)
        return result

    def _code(self, header: PullHeader, result: ReadResult) -> ResponseCode:
        if result.status is _FOUND:  # first: to look up a member of an enum costs a call
            return _SUCCESS
        code = _CODES.get(result.status)
        if code is None:  # the queue is empty: an offset other than its start is wrong
            return ResponseCode.PULL_OFFSET_MOVED if header.queue_offset else _NOT_FOUND
        return code

    def _of_a_replica(
        self, header: PullHeader, code: ResponseCode, result: ReadResult
    ) -> tuple[ResponseCode, ReadResult]:
        """A replica that has nothing sends to its master; while that is away, it never moves a reader elsewhere.

        The offset may be one that the replica does not have yet, or that it never had: the master may well have it.
        """
        if code is ResponseCode.PULL_OFFSET_MOVED:
            code, result = _NOT_FOUND, msgspec.structs.replace(result, next_offset=header.queue_offset)
        is_near = self.master_is_near is not None and self.master_is_near()
        return (ResponseCode.PULL_RETRY_IMMEDIATELY if is_near else code), result

    def _respond(
        self,
        connection: Connection,
        request: Received[PullHeader],
        code: ResponseCode,
        result: ReadResult,
        topic: TopicConfig | None,
        group: GroupConfig | None,
    ) -> None:
        """Send what was read."""
        if self.charge is not None and result.count:
            self.charge(connection, request, result)
        self._counters.requests.outcome = code
        if request.is_oneway:
            return
        counters, runs, size_bytes = self._counters, result.runs, result.size_bytes
        has_flags = (topic is not None and topic.topic_sys_flag) or (group is not None and group.group_sys_flag)
        is_plain = code is _SUCCESS and not has_flags and not self._suggests
        if is_plain and request.frame.serialize_type is _JSON and size_bytes < _PLAIN_BYTES:
            head = found_messages_head(request.correlation_id, result.next_offset, result.first, result.end, size_bytes)
        else:
            head = self._head(request, code, result, topic, group)
        if runs:
            counters.pulls_found += 1
            counters.pulled_messages += result.count
            counters.pulled_bytes += size_bytes
            key = request.header.topic, request.header.consumer_group
            counters.gets[key] += CALL + result.count * MESSAGE + size_bytes
            if size_bytes < UNJOINED_BYTES * len(runs):
                connection.send(b"".join((head, *runs)))
            else:
                connection.send_parts(head, runs)
        else:
            counters.pulls_missed += 1
            connection.send(head)

    def _head(
        self,
        request: Received[PullHeader],
        code: ResponseCode,
        result: ReadResult,
        topic: TopicConfig | None,
        group: GroupConfig | None,
    ) -> bytes:
        header = PullResponseHeader(
            suggest_which_broker_id=self._suggested(request.header, result) if self._suggests else _MASTER,
            next_begin_offset=result.next_offset,
            min_offset=result.first,
            max_offset=result.end,
            topic_sys_flag=(topic.topic_sys_flag or None) if topic else None,
            group_sys_flag=(group.group_sys_flag or None) if group else None,
        )
        return encode_response_head(
            code,
            request.correlation_id,
            header,
            body_size=result.size_bytes,
            remark=result.status.value,
            serialize_type=request.serialize_type,
        )

    def _suggested(self, header: PullHeader, result: ReadResult) -> int:
        """RocketMQ's rule: a replica for readers of what memory no longer holds, else the broker the group names."""
        group = self._groups.table.get(header.consumer_group)
        if result.count and self._store.end_position - result.end_position > self._store.settings.hot_bytes:
            return group.which_broker_when_consume_slowly if group else _MASTER
        if self.master_is_near is not None and self.master_is_near():
            return _MASTER
        return group.broker_id if group else _MASTER

    def _reset_response(self, connection: Connection, request: Received[PullHeader], offset: int) -> None:
        header = request.header
        self._progress.note_pull(header.consumer_group, header.topic, header.queue_id, offset)
        known = self._store.reader.range_of(header.topic, header.queue_id)
        first, end = known if known else (0, 0)
        result = ReadResult(ReadStatus.OFFSET_TOO_SMALL, offset, first, end)
        self._respond(connection, request, ResponseCode.PULL_OFFSET_MOVED, result, None, None)

    # --- long polling ---

    def _hold(self, connection: Connection, request: Received[PullHeader], wanted: PullFilter) -> None:
        header = request.header
        hold_ms = header.suspend_timeout_millis if self._settings.long_polling else self._settings.short_polling_ms
        now_ms = self._clock.monotonic_ms()
        self._authority.check_accept()  # what is here may be read; who waits for more should look for the master
        hold_ms = min(hold_ms, self._authority.wait_left_ms())
        deadline_ms = now_ms + max(0, hold_ms)
        queue = (header.topic, header.queue_id)
        version = self._access.version
        held = HeldPull(connection, request, queue, header.queue_offset, deadline_ms, wanted, version, now_ms)
        self._waiters.hold(held)
        self._counters.requests.outcome = HELD

    def wake(self, queues: Touched) -> None:
        """Readers can see new messages of these queues: answer the pulls that wait for one of them.

        What they get leaves now, in the turn that made the messages visible, and in one write for each connection.
        """
        if not len(self._waiters):
            return
        woken: dict[Connection, None] = {}
        for queue in queues.names():
            for held in self._waiters.of_queue(queue):
                self._attempt(held, self._wake)
                if held.answered:
                    woken[held.connection] = None
        for connection in woken:
            try:
                connection.flush()
            except Exception:  # a defect of one connection must not keep the others from their responses
                logger.exception("response not sent: peer=%s", connection.remote_text)
                connection.abort("a response could not be sent")

    def respond_due(self) -> None:
        """Pulls whose time is over get their final response."""
        for held in self._waiters.due():
            self._attempt(held, self._respond_finally)

    def rules_changed(self) -> None:
        """Users or policies did: pulls that may not wait any longer are refused, some with every tick."""
        self._to_recheck = list(self._waiters)

    @property
    def is_rechecking(self) -> bool:
        return bool(self._to_recheck)

    def recheck_some(self) -> None:
        if not self._to_recheck:
            return
        batch, self._to_recheck = self._to_recheck[:_RECHECKED_PER_TICK], self._to_recheck[_RECHECKED_PER_TICK:]
        for held in batch:
            if not held.answered:
                self._attempt(held, self._recheck)

    def _recheck(self, held: HeldPull) -> None:
        """Check again that the client of a held pull may read. Raises AccessDeniedError."""
        if held.rules_version != self._access.version:
            self._access.recheck(held.connection, held.request)
            held.rules_version = self._access.version

    def _attempt(self, held: HeldPull, response: Callable[[HeldPull], None]) -> None:
        """A failure of one of them does not keep the others from their responses."""
        requests = self._counters.requests
        requests.outcome = HELD
        try:
            self._recheck(held)
            response(held)
            if requests.outcome != HELD:
                waited_ms = self._clock.monotonic_ms() - held.since_ms
                requests.note(held.request.code, requests.outcome, waited_ms, held=True)
        except AccessDeniedError as error:
            self._waiters.release(held)
            send_refusal(held.connection, held.request, ResponseCode.NO_PERMISSION, str(error))
        except RefusedError as error:  # the group was paused, or the topic closed, while the pull waited
            self._waiters.release(held)
            send_refusal(held.connection, held.request, error.code, error.remark, error.ext)
        except Exception as error:  # a defect, or a damaged file
            logger.exception("held pull failed: topic=%s queue=%d", *held.queue)
            self._waiters.release(held)
            send_failure(held.connection, held.request, error)
        finally:
            requests.outcome = SUCCESS

    def _wake(self, held: HeldPull) -> None:
        reset = self._progress.take_reset(held.request.header.consumer_group, *held.queue)
        if reset is not None:
            self._waiters.release(held)
            self._reset_response(held.connection, held.request, reset)
            return
        result = self._read(held.request.header, held.scanned, held.wanted)
        if result.count or result.next_offset < result.end:  # more arrived than one read looks at: it asks again
            self._waiters.release(held)
            self._leave_held(held, result)
        elif result.status is not ReadStatus.OFFSET_OVERFLOW_ONE:
            held.scanned = result.next_offset  # nothing for it so far: look only at what comes after

    def _respond_finally(self, held: HeldPull) -> None:
        header: Any = held.request.header
        result = self._read(header, held.scanned, held.wanted)  # what was passed over need not be read again
        self._leave_held(held, result)

    def _leave_held(self, held: HeldPull, result: ReadResult) -> None:
        """Answer a held pull. Raises RefusedError where the pull would be refused if it came now."""
        header = held.request.header
        self._checked(header)
        code = self._code(header, result)
        if self.master_is_near is not None and code is not _SUCCESS:
            code, result = self._of_a_replica(header, code, result)
        self._respond(held.connection, held.request, code, result, None, None)
