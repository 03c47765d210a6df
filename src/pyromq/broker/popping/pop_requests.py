"""The front door of pops in the remoting protocol: requests are parsed, ``Pops`` does the rest, responses are encoded.

    200050 pop    200051 ack    200151 batch of acks    200053 change of the invisible time
    200054 is there something?  200055 how many wait?  31040 to the dead letters

Java clients put receipts together from three texts of a pop response: for each queue where it starts, and the offsets
of its messages in the order of the body.

A pop waits from its arrival on. Its bornTime is not looked at: that is the clock of another machine, and one that is
behind would get nothing (Apache's brokers answer 210 when it seems to be half a second late).
"""

from __future__ import annotations

from typing import Any, Final

from pyromq.broker.base.access import Access
from pyromq.broker.base.environment import Environment
from pyromq.broker.base.refusals import RefusedError, refusal_of, too_large
from pyromq.broker.base.request_times import HELD
from pyromq.broker.base.responses import BODY_BYTES_MAX, send_refusal, send_response
from pyromq.broker.base.stats import Counters
from pyromq.broker.dispatching.caller import Caller
from pyromq.broker.popping.batches import outcomes_of, settle_batch
from pyromq.broker.popping.calls import AckErrors, AckTogether, PopRequest, PopResult
from pyromq.broker.popping.journal import Then
from pyromq.broker.popping.plans import PopPlan
from pyromq.broker.popping.pop_lane import PopLane
from pyromq.broker.popping.pops import Pops
from pyromq.broker.popping.receipts import InvalidReceiptError, Receipt, parse_receipt, real_topic
from pyromq.compiled_core import core
from pyromq.errors import MQError
from pyromq.net.connection import UNJOINED_BYTES, Connection
from pyromq.security.errors import AccessDeniedError
from pyromq.store.in_flight.queue import QueueName
from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import encode_response_head
from pyromq.wire.fast.responses import success
from pyromq.wire.headers.pop import (
    AckHeader,
    ChangeInvisibleTimeHeader,
    ChangeInvisibleTimeResponseHeader,
    ForwardToDeadLettersHeader,
    NotificationHeader,
    NotificationResponseHeader,
    PollingInfoHeader,
    PollingInfoResponseHeader,
    PopHeader,
    PopResponseHeader,
)
from pyromq.wire.json.batch_ack import BatchAck, decode_batch_ack
from pyromq.wire.received import Received

_NEWEST: Final = 1
_FOUND: Final = "FOUND"
_TIMEOUT: Final = (ResponseCode.POLLING_TIMEOUT, "no message came while the pop waited")
_BATCHES_MAX: Final = 10_000


class MissedPop(PopHeader, frozen=True, kw_only=True, gc=True):
    """A pop of a caller, which has looked already and found nothing: it waits."""

    plan: PopPlan


class PopHandler:
    """Requests 200050, 200051, 200053, 200054, 200055, 200151 and 31040."""

    def __init__(self, environment: Environment, pops: Pops, counters: Counters) -> None:
        self._clock = environment.clock
        self._access: Access = environment.access
        self._pops = pops
        self._times = counters.requests
        self.lane: PopLane | None = None
        if core is not None and pops.core_lane is not None:
            times = counters.requests
            self.lane = PopLane(core, pops.core_lane, pops, environment.clock, times, self._missed)

    # --- pop ---

    def pop(self, connection: Connection, request: Received[PopHeader]) -> None:
        """Handle request 200050 (POP_MESSAGE)."""
        header = request.header
        if isinstance(header, MissedPop):
            self._missed(connection, request, header.plan)
            return
        plan = self._pops.plans.plan(
            PopRequest(
                group=header.consumer_group,
                topic=header.topic,
                count=header.max_msg_nums,
                invisible_ms=header.invisible_time,
                poll_ms=header.poll_time,
                queue_id=max(-1, header.queue_id),
                newest=header.init_mode == _NEWEST,
                expression=header.exp,
                expression_type=header.exp_type,
                order=bool(header.order),
                attempt_id=header.attempt_id,
            )
        )
        result = self._pops.take(plan)
        if result is None:
            self._missed(connection, request, plan)
            return
        self._found(connection, request, result)
        if self.lane is not None and not isinstance(connection, Caller):
            self.lane.learn(header, plan.request)

    def _missed(self, connection: Connection, request: Received[PopHeader], plan: PopPlan) -> None:
        if request.header.poll_time <= 0:
            self._nothing(connection, request)
        else:
            self._hold(connection, request, plan, request.header.poll_time)

    def _hold(self, connection: Connection, request: Received[Any], plan: PopPlan, poll_ms: int) -> None:
        since_ms = self._clock.monotonic_ms()

        def respond(result: PopResult | None) -> None:
            if result is None:
                self._nothing(connection, request)
            else:
                self._found(connection, request, result)
            self._note(request, since_ms)

        held = self._pops.waiting.hold(plan, since_ms + poll_ms, respond, connection)
        held.is_admitted = self._admission(connection, request)
        self._times.outcome = HELD

    def _admission(self, connection: Connection, request: Received[Any]) -> Any:
        """A test before something is handed out: rules may change while a pop waits."""
        version = self._access.version

        def is_admitted() -> bool:
            if self._access.version == version:
                return True
            try:
                self._access.recheck(connection, request)
            except AccessDeniedError as error:
                send_refusal(connection, request, ResponseCode.NO_PERMISSION, str(error))
                return False
            return True

        return is_admitted

    def _nothing(self, connection: Connection, request: Received[Any]) -> None:
        self._times.outcome = _TIMEOUT[0]
        send_refusal(connection, request, *_TIMEOUT)

    def _found(self, connection: Connection, request: Received[Any], result: PopResult) -> None:
        self._times.outcome = ResponseCode.SUCCESS
        if request.is_oneway:
            self._pops.settler.give_back(result)
            return
        if isinstance(connection, Caller):
            if not connection.take_result(request, result):
                self._pops.settler.give_back(result)
            return
        runs = [run for portion in result.portions for run in portion.runs]
        size_bytes = sum(portion.size_bytes for portion in result.portions)
        head = encode_response_head(
            ResponseCode.SUCCESS,
            request.correlation_id,
            _pop_header(result),
            body_size=size_bytes,
            remark=_FOUND,
            serialize_type=request.serialize_type,
        )
        if size_bytes < UNJOINED_BYTES * len(runs):
            connection.send(b"".join((head, *runs)))
        else:
            connection.send_parts(head, [memoryview(run) for run in runs])

    # --- settling ---

    def ack(self, connection: Connection, request: Received[AckHeader]) -> None:
        """200051: answered when the acknowledgement is as safe as the store promises."""
        header = request.header
        if isinstance(header, AckTogether):
            self._ack_together(connection, request, header)
            return
        receipt = self._receipt(header)
        self._pops.settler.settle(header.consumer_group, header.topic, receipt, self._then(connection, request))
        self._times.outcome = HELD

    def _ack_together(self, connection: Connection, request: Received[Any], header: AckTogether) -> None:
        """Acknowledgements of calls of another protocol, which hears what became of each."""
        assert isinstance(connection, Caller), "no such request travels"
        since_ms = self._clock.monotonic_ms()

        def then(errors: AckErrors, failure: MQError | None) -> None:
            if failure is not None:
                errors = [error or failure for error in errors]
            connection.take_result(request, errors)
            took_ms = self._clock.monotonic_ms() - since_ms
            for outcome, count in outcomes_of(errors, header.sizes).items():
                self._times.note(request.code, outcome, took_ms, count, held=True)

        self._pops.settler.settle_together(header, then)
        self._times.outcome = HELD  # noted by ``then``, even where that was called at once

    def _receipt(self, header: AckHeader | ChangeInvisibleTimeHeader) -> Receipt:
        receipt = parse_receipt(header.extra_info)
        if (receipt.queue_id, receipt.offset) != (header.queue_id, header.offset):
            raise InvalidReceiptError("it belongs to another message than the request names")
        return receipt

    def batch_ack(self, connection: Connection, request: Received[None]) -> None:
        """200151: answered when all of them are safe; those with a receipt that is not good are told of together."""
        if len(request.body) > BODY_BYTES_MAX:
            raise too_large(request)
        acks = decode_batch_ack(request.body)
        if not acks or len(acks) > _BATCHES_MAX:
            raise RefusedError(ResponseCode.NO_MESSAGE, f"a batch has 1 to {_BATCHES_MAX} entries, not {len(acks)}")
        found = [
            (_name_of(ack), ack.offsets, ack.number, ack.popped_ms) for ack in acks
        ]  # all can be read, or none counts
        settle_batch(self._pops, found, self._then(connection, request))
        self._times.outcome = HELD

    def change(self, connection: Connection, request: Received[ChangeInvisibleTimeHeader]) -> None:
        """Handle request 200053 (CHANGE_MESSAGE_INVISIBLETIME)."""
        header = request.header
        receipt = self._receipt(header)
        made: list[Receipt] = []

        def then(error: MQError | None) -> None:
            if error is not None:
                send_refusal(connection, request, *refusal_of(error))
                return
            changed = made[0]
            response = ChangeInvisibleTimeResponseHeader(
                pop_time=changed.popped_ms, invisible_time=changed.invisible_ms, revive_qid=changed.number
            )
            send_response(connection, request, response)

        self._times.outcome = HELD
        group, topic, time_ms = header.consumer_group, header.topic, max(0, header.invisible_time)
        made.append(self._pops.settler.change(group, topic, receipt, time_ms, then, suspend=bool(header.suspend)))

    def forward(self, connection: Connection, request: Received[ForwardToDeadLettersHeader]) -> None:
        """31040: answered when the copy is safe, and the message acknowledged."""
        header = request.header
        then = self._then(connection, request)
        self._pops.settler.bury(header.consumer_group, header.topic, parse_receipt(header.extra_info), then)
        self._times.outcome = HELD

    def _then(self, connection: Connection, request: Received[Any]) -> Then:
        since_ms = self._clock.monotonic_ms()

        def then(error: MQError | None) -> None:
            if error is None:
                self._times.outcome = ResponseCode.SUCCESS
                if not request.is_oneway:
                    connection.send(success(request))
            else:
                code, remark = refusal_of(error)
                self._times.outcome = code
                send_refusal(connection, request, code, remark)
            self._note(request, since_ms)

        return then

    def _note(self, request: Received[Any], since_ms: int) -> None:
        times = self._times
        times.note(request.code, times.outcome, self._clock.monotonic_ms() - since_ms, held=True)
        times.outcome = ResponseCode.SUCCESS

    # --- looking ---

    def notify(self, connection: Connection, request: Received[NotificationHeader]) -> None:
        """200054: a pop would find something."""
        header = request.header
        plan = self._pops.plans.plan(
            PopRequest(
                group=header.consumer_group,
                topic=header.topic,
                queue_id=max(-1, header.queue_id),
                order=bool(header.order),
                attempt_id=header.attempt_id,
                expression=header.exp,
                expression_type=header.exp_type,
            )
        )
        has_some = self._pops.has_some(plan)
        if has_some or header.poll_time <= 0:
            send_response(connection, request, NotificationResponseHeader(has_msg=has_some))
            return
        if self._pops.waiting.is_full:
            send_response(connection, request, NotificationResponseHeader(has_msg=False, polling_full=True))
            return

        def respond(result: PopResult | None) -> None:
            send_response(connection, request, NotificationResponseHeader(has_msg=result is not None))

        deadline_ms = self._clock.monotonic_ms() + header.poll_time
        held = self._pops.waiting.hold(plan, deadline_ms, respond, connection, only_look=True)
        held.is_admitted = self._admission(connection, request)
        self._times.outcome = HELD

    def polling_info(self, connection: Connection, request: Received[PollingInfoHeader]) -> PollingInfoResponseHeader:
        """Handle request 200055 (POLLING_INFO)."""
        header = request.header
        name = QueueName(header.consumer_group, header.topic, header.queue_id)
        held = self._pops.waiting.held_by(*name)
        queue = self._pops.table.queues.get(name) if header.offset is not None else None
        if queue is None or header.offset is None or header.offset >= queue.next:
            return PollingInfoResponseHeader(polling_num=held)
        out = queue.rows.get(header.offset)
        if out is None:
            return PollingInfoResponseHeader(polling_num=held, settled=True)
        return PollingInfoResponseHeader(
            polling_num=held, attempts=out.attempts, invisible_until=out.until_ms, settled=False
        )


def _name_of(ack: BatchAck) -> QueueName:
    kind = int(ack.kind) if ack.kind.isdecimal() else -1
    return QueueName(ack.group, real_topic(kind, ack.group, ack.topic), ack.queue_id)


def _pop_header(result: PopResult) -> PopResponseHeader:
    starts, offsets, counts = [], [], []
    for portion in result.portions:
        place = f"{int(portion.kind)} {portion.queue_id} "
        starts.append(f"{place}{portion.start}")
        offsets.append(place + ",".join(map(str, portion.offsets)))
        if result.request.order:
            attempts = portion.attempts or [1] * len(portion.offsets)
            counts += [
                f"{int(portion.kind)} qo{portion.queue_id}%{offset} {count - 1}"
                for offset, count in zip(portion.offsets, attempts, strict=True)
            ]
    return PopResponseHeader(
        pop_time=result.popped_ms,
        invisible_time=result.invisible_ms,
        revive_qid=result.number,
        rest_num=result.rest,
        start_offset_info=";".join(starts),
        msg_offset_info=";".join(offsets),
        order_count_info=";".join(counts) or None,
    )
