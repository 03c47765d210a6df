"""AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue: what becomes of messages that were received.

Renews what push consumers have, and gives back what could not be sent: that is visible again after a second, and not
counted as an attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Final

from pyromq.broker.grpc.call_lane import GrpcCallLane, Learn
from pyromq.broker.grpc.clients import GrpcClient, GrpcClients
from pyromq.broker.grpc.ground import FrontGround
from pyromq.broker.grpc.names import group_name, topic_name
from pyromq.broker.grpc.renewals import Renewal
from pyromq.broker.grpc.rpc import checked, read_message
from pyromq.broker.grpc.statuses import StatusError, status_of_error, status_of_response
from pyromq.broker.popping.calls import AckErrors, AckReceipt, AckTogether, ack_runs
from pyromq.broker.popping.plans import INVISIBLE_MS_MAX
from pyromq.broker.popping.receipts import Receipt, parse_receipt, real_topic
from pyromq.compiled_core import AckRun, core
from pyromq.errors import ConnectionLostError, MQError
from pyromq.net.http2 import GrpcCall, Http2Connection
from pyromq.wire.codes import RequestCode
from pyromq.wire.grpc.codes import StatusCode
from pyromq.wire.grpc.definitions import Status, status_of
from pyromq.wire.grpc.hot import STATUS_OK, read_resource
from pyromq.wire.grpc.services import (
    AckMessageRequest,
    AckMessageResponse,
    AckMessageResultEntry,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    ForwardToDeadLetterRequest,
    StatusResponse,
)
from pyromq.wire.headers.pop import (
    ChangeInvisibleTimeHeader,
    ChangeInvisibleTimeResponseHeader,
    ForwardToDeadLettersHeader,
)
from pyromq.wire.received import Received

logger = logging.getLogger(__name__)

GIVEN_BACK_MS: Final = 1_000
ACKS_MAX: Final = 1_024
_OK: Final = status_of(StatusCode.OK)


class Settling:
    """Answers three RPCs, renews, gives back."""

    def __init__(self, ground: FrontGround, clients: GrpcClients) -> None:
        self._ground = ground
        self._clients = clients
        self._broker = ground.settings.name.encode()
        self._tasks: set[asyncio.Task[None]] = set()

    # --- settling ---

    def ack(self, call: GrpcCall, data: bytes) -> None:
        """Answered when all entries are safe, or refused."""
        if not self._ack_plain(call, data):
            self._ack_any(call, read_message(AckMessageRequest, data))

    def _ack_plain(self, call: GrpcCall, data: bytes) -> bool:
        """Acknowledge what the core reads: receipts of this broker, none of a retry topic. False: it does not."""
        found = core.read_acks(data, self._broker, STATUS_OK) if core is not None else None
        if found is None:
            return False
        group, topic = read_resource(found[0]), read_resource(found[1])
        if group is None or topic is None:
            return False
        try:
            client = self._clients.of(call)
            names = group_name(group, client.namespace), topic_name(topic, client.namespace)
        except MQError as error:
            call.respond(AckMessageResponse(status=status_of_error(error)).encode())
            return True
        lane = call.connection.lane
        learn = lane.candidate_acks(call, client, found[:2], names) if isinstance(lane, GrpcCallLane) else None
        receipts = ack_runs(each[1:] for each in found[2])
        texts = [each[0] for each in found[2]]
        self._ask(client, names, receipts, texts, (), partial(self._acked, call, data, found[3], learn))
        return True

    def _ask(
        self,
        client: GrpcClient,
        names: tuple[str, str],
        receipts: Sequence[AckRun],
        texts: Sequence[str],
        sizes: Sequence[int],
        on_answer: Callable[[Received[Any] | MQError], None],
    ) -> None:
        """Acknowledge what is of a group and a topic; of push consumers the receipts that count by now."""
        renewals = client.renewals
        if len(renewals):
            words = []
            for text in texts:
                receipt = parse_receipt(renewals.current(text))
                renewals.drop(text)
                words.append((receipt.queue_id, receipt.offset, receipt.number, receipt.popped_ms))
            receipts = ack_runs(words)
        try:
            self._ground.ask(client.caller, RequestCode.ACK_MESSAGE, AckTogether(*names, receipts, sizes), on_answer)
        except MQError as error:
            on_answer(error)

    @staticmethod
    def _acked(
        call: GrpcCall, data: bytes, response: bytes, learn: Learn | None, answer: Received[Any] | MQError
    ) -> None:
        """``response`` is for acknowledgements that are all safe."""
        if _is_all_well(answer):
            if learn is not None:
                learn()
            call.respond(response)
            return
        request = read_message(AckMessageRequest, data)
        call.respond(ack_response(request, ack_statuses(answer, len(request.entries))))

    def ack_taken(
        self,
        connection: Http2Connection,
        client: GrpcClient,
        names: tuple[str, str],
        receipts: Sequence[AckRun],
        texts: Sequence[str],
        calls: list[tuple[int, int]],
    ) -> None:
        """Acknowledge what the lane took: of each call its stream, and how many of the receipts are its own."""
        sizes = [count for _, count in calls]
        lane = self._ground.pop_lane(client.caller)
        if lane is not None and not len(client.renewals):
            self._ground.hand_over()  # what came before them
            acks = AckTogether(*names, receipts, sizes)
            lane.settle(client.caller, acks, partial(self._settled_taken, connection, calls))
            return
        self._ask(client, names, receipts, texts, sizes, partial(self._acked_taken, connection, calls))

    def _acked_taken(
        self, connection: Http2Connection, calls: list[tuple[int, int]], answer: Received[Any] | MQError
    ) -> None:
        if isinstance(answer, MQError) or answer.code:
            self._answer_each(connection, calls, ack_statuses(answer, sum(count for _, count in calls)))
        else:
            self._settled_taken(connection, calls, answer.header)

    def _settled_taken(self, connection: Http2Connection, calls: list[tuple[int, int]], errors: AckErrors) -> None:
        if any(errors) or not connection.answer_acks([stream_id for stream_id, _ in calls]):
            self._answer_each(connection, calls, statuses_of(errors))

    @staticmethod
    def _answer_each(connection: Http2Connection, calls: list[tuple[int, int]], statuses: list[Status]) -> None:
        for stream_id, count in calls:
            own, statuses = statuses[:count], statuses[count:]
            adopted = connection.adopt(stream_id)
            if adopted is not None:
                call, data = adopted
                call.respond(ack_response(read_message(AckMessageRequest, data), own))

    def _ack_any(self, call: GrpcCall, request: AckMessageRequest) -> None:
        try:
            client = self._clients.of(call)
            group = group_name(request.group, client.namespace)
            topic = topic_name(request.topic, client.namespace)
            if not 1 <= len(request.entries) <= ACKS_MAX:
                text = f"a request acknowledges 1 to {ACKS_MAX} messages, not {len(request.entries)}"
                raise StatusError(StatusCode.BAD_REQUEST, text)
        except MQError as error:
            call.respond(AckMessageResponse(status=status_of_error(error)).encode())
            return
        acks = _Acks(call, request)
        places: dict[str, list[tuple[int, AckReceipt]]] = {}
        for index, entry in enumerate(request.entries):
            try:
                receipt = self._receipt(client.renewals.current(entry.receipt_handle))
                client.renewals.drop(entry.receipt_handle)
                real = real_topic(receipt.kind, group, topic)
            except MQError as error:
                acks.statuses[index] = status_of_error(error)
            else:
                words = receipt.queue_id, receipt.offset, receipt.number, receipt.popped_ms
                places.setdefault(real, []).append((index, words))
        acks.waiting = len(places)
        for real, found in places.items():
            indexes, receipts = zip(*found, strict=True)
            answered = partial(acks.answered, indexes)
            try:
                together = AckTogether(group, real, ack_runs(receipts))
                self._ground.ask(client.caller, RequestCode.ACK_MESSAGE, together, answered)
            except MQError as error:
                acks.settled(indexes, [status_of_error(error)] * len(indexes))
        if not places:
            acks.respond()

    def _receipt(self, handle: str) -> Receipt:
        receipt = parse_receipt(handle)
        if receipt.broker != self._ground.settings.name:
            text = f"the message is of broker {receipt.broker[:80]}, this is {self._ground.settings.name}"
            raise StatusError(StatusCode.INVALID_RECEIPT_HANDLE, text)
        return receipt

    async def change(
        self, client: GrpcClient, request: ChangeInvisibleDurationRequest, call: GrpcCall
    ) -> ChangeInvisibleDurationResponse:
        group = group_name(request.group, client.namespace)
        topic = topic_name(request.topic, client.namespace)
        invisible_ms = request.invisible_duration.ms if request.invisible_duration else 0
        if not 0 <= invisible_ms <= INVISIBLE_MS_MAX:
            text = f"an invisible time of {invisible_ms} ms is not between 0 and {INVISIBLE_MS_MAX} ms (12 h)"
            raise StatusError(StatusCode.ILLEGAL_INVISIBLE_TIME, text)
        handle = client.renewals.current(request.receipt_handle)
        client.renewals.drop(request.receipt_handle)
        changed = await self._change(client, group, topic, handle, invisible_ms, suspend=bool(request.suspend))
        return ChangeInvisibleDurationResponse(status=_OK, receipt_handle=changed)

    async def _change(
        self, client: GrpcClient, group: str, topic: str, handle: str, invisible_ms: int, *, suspend: bool = False
    ) -> str:
        """The new receipt. Raises MQError."""
        receipt = self._receipt(handle)
        header = ChangeInvisibleTimeHeader(
            consumer_group=group,
            topic=real_topic(receipt.kind, group, topic),
            queue_id=receipt.queue_id,
            extra_info=receipt.text(),
            offset=receipt.offset,
            invisible_time=invisible_ms,
            suspend=suspend or None,
        )
        response = checked(await client.caller.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header))
        found = response.header_as(ChangeInvisibleTimeResponseHeader)
        return receipt._replace(
            start=receipt.offset,
            popped_ms=found.pop_time,
            invisible_ms=found.invisible_time,
            number=found.revive_qid,
        ).text()

    async def forward(self, client: GrpcClient, request: ForwardToDeadLetterRequest, call: GrpcCall) -> StatusResponse:
        group = group_name(request.group, client.namespace)
        topic = topic_name(request.topic, client.namespace)
        receipt = self._receipt(client.renewals.current(request.receipt_handle))
        client.renewals.drop(request.receipt_handle)
        header = ForwardToDeadLettersHeader(consumer_group=group, topic=topic, extra_info=receipt.text())
        checked(await client.caller.call(RequestCode.FORWARD_TO_DEAD_LETTERS, header))
        return StatusResponse(status=_OK)

    # --- renewing, giving back ---

    def renew(self, client: GrpcClient) -> None:
        """What runs out soon is changed to later."""
        for first, renewal in client.renewals.due(self._ground.clock.monotonic_ms()):
            renewal.is_under_way = True
            self._start(self._renew(client, first, renewal))

    async def _renew(self, client: GrpcClient, first: str, renewal: Renewal) -> None:
        invisible_ms = renewal.next_ms
        try:
            handle = await self._change(client, renewal.group, renewal.topic, renewal.handle, invisible_ms)
        except MQError as error:
            logger.debug("not renewed: group=%s topic=%s reason=%s", renewal.group, renewal.topic, error)
            client.renewals.drop(first)
            return
        renewal.handle, renewal.is_under_way = handle, False
        renewal.until_ms = self._ground.clock.monotonic_ms() + invisible_ms
        renewal.times += 1

    async def release(self, client: GrpcClient) -> None:
        """The client is gone: what it had is visible again after a second."""
        found = client.renewals.take_all()
        await asyncio.gather(*(self._show_again(client, each.group, each.topic, each.handle) for each in found))

    def give_back(self, client: GrpcClient, group: str, topic: str, receipts: Iterable[Receipt]) -> None:
        """These could not be sent: they are visible again after a second, and the delivery does not count."""
        for receipt in receipts:
            text = receipt.text()
            client.renewals.drop(text)
            self._start(self._show_again(client, group, topic, text, suspend=True))

    async def _show_again(
        self, client: GrpcClient, group: str, topic: str, handle: str, *, suspend: bool = False
    ) -> None:
        try:
            await self._change(client, group, topic, handle, GIVEN_BACK_MS, suspend=suspend)
        except MQError as error:  # it comes again when its time is over
            logger.debug("not given back: group=%s topic=%s reason=%s", group, topic, error)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Acks:
    """Acknowledgements of one call; it is answered when the last one is safe, or refused."""

    def __init__(self, call: GrpcCall, request: AckMessageRequest) -> None:
        self._call = call
        self._request = request
        self.waiting = 0
        self.statuses: list[Status] = [_OK] * len(request.entries)

    def answered(self, indexes: Sequence[int], answer: Received[Any] | ConnectionLostError) -> None:
        self.settled(indexes, ack_statuses(answer, len(indexes)))

    def settled(self, indexes: Sequence[int], statuses: list[Status]) -> None:
        for index, status in zip(indexes, statuses, strict=True):
            self.statuses[index] = status
        self.waiting -= 1
        if not self.waiting:
            self.respond()

    def respond(self) -> None:
        self._call.respond(ack_response(self._request, self.statuses))


def _is_all_well(answer: Received[Any] | MQError) -> bool:
    return not isinstance(answer, MQError) and not answer.code and not any(answer.header)


def ack_statuses(answer: Received[Any] | MQError, count: int) -> list[Status]:
    """What became of each of so many acknowledgements."""
    if isinstance(answer, MQError):
        return [status_of_error(answer)] * count
    if answer.code:
        return [status_of_response(answer)] * count
    return statuses_of(answer.header)


def statuses_of(errors: AckErrors) -> list[Status]:
    return [_OK if error is None else status_of_error(error) for error in errors]


def ack_response(request: AckMessageRequest, statuses: list[Status]) -> bytes:
    """The response to a request, with one status for each of its entries."""
    entries = [
        AckMessageResultEntry(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=each)
        for entry, each in zip(request.entries, statuses, strict=True)
    ]
    codes = {each.code for each in statuses}
    common = statuses[0] if len(codes) == 1 else status_of(StatusCode.MULTIPLE_RESULTS)
    return AckMessageResponse(status=common, entries=entries).encode()
