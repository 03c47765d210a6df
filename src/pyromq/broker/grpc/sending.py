"""SendMessage, EndTransaction and RecallMessage: through the same handlers as sends of the remoting protocol.

A send is answered by a callback and not by a task: what many clients send in one loop iteration is staged together
and committed together.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

from pyromq.broker.dispatching.caller import OnAnswer
from pyromq.broker.grpc.call_lane import GrpcCallLane, Learn
from pyromq.broker.grpc.clients import GrpcClient, GrpcClients
from pyromq.broker.grpc.ground import FrontGround
from pyromq.broker.grpc.messages import Outgoing, accepted_kinds, all_outgoing
from pyromq.broker.grpc.names import topic_name
from pyromq.broker.grpc.rpc import checked, read_message
from pyromq.broker.grpc.statuses import StatusError, status_of_error, status_of_response
from pyromq.errors import ConnectionLostError, MQError
from pyromq.model.names import DEAD_LETTER_PREFIX, DEFAULT_TOPIC
from pyromq.model.topic import Perm, TopicConfig
from pyromq.net.http2 import GrpcCall
from pyromq.wire.batch import BatchItem, encode_batch
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.compression import decompress
from pyromq.wire.flags import SysFlag
from pyromq.wire.grpc.codes import MessageKind, StatusCode, TransactionResolution, TransactionSource
from pyromq.wire.grpc.definitions import Status, status_of
from pyromq.wire.grpc.hot import read_send, sent_response
from pyromq.wire.grpc.services import (
    EndTransactionRequest,
    RecallMessageRequest,
    RecallMessageResponse,
    SendMessageRequest,
    SendMessageResponse,
    SendResultEntry,
    StatusResponse,
)
from pyromq.wire.headers.producer import (
    EndTransactionHeader,
    RecallMessageHeader,
    RecallMessageResponseHeader,
    SendResponseHeader,
    SendV2Header,
)
from pyromq.wire.java_hash import java_hash
from pyromq.wire.message_id import decode_offset_id
from pyromq.wire.received import Received

BATCH_MAX: Final = 1_024
_WRITE: Final = int(Perm.WRITE)
_STORED: Final = frozenset(
    (
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    )
)
_ENDINGS: Final = {TransactionResolution.COMMIT: SysFlag.COMMIT, TransactionResolution.ROLLBACK: SysFlag.ROLLBACK}
_OK: Final = status_of(StatusCode.OK)
_PLAIN: Final = (MessageKind.NORMAL, MessageKind.FIFO, MessageKind.PRIORITY)  # ids of transactions say more


class Sending:
    """Answers three RPCs."""

    def __init__(self, ground: FrontGround, clients: GrpcClients) -> None:
        self._ground = ground
        self._clients = clients
        self.turn = 0  # of the queues

    # --- send ---

    def send(self, call: GrpcCall, data: bytes) -> None:
        request = read_send(data) or read_message(SendMessageRequest, data)
        try:
            client = self._clients.of(call)
            topic = self._topic(request, client)
            messages = all_outgoing(request.messages, topic, self._ground.clock.now_ms())
            config = self._ground.topic(topic, client.session)
            for message in messages:
                _check_kind(message, config)
            ask = self._one if len(messages) == 1 else self._batch
            learn = self._candidate(call, client, request, config, messages)
            ask(client, config, messages, partial(self._sent, call, messages, learn))
        except MQError as error:
            self._refuse(call, request, status_of_error(error))

    def _candidate(
        self,
        call: GrpcCall,
        client: GrpcClient,
        request: SendMessageRequest,
        config: TopicConfig,
        messages: list[Outgoing],
    ) -> Learn | None:
        """What the lane of the connection learns when this send is stored."""
        lane = call.connection.lane
        if not isinstance(lane, GrpcCallLane) or len(messages) > 1 or messages[0].kind is not MessageKind.NORMAL:
            return None
        resource = request.messages[0].topic
        assert resource is not None
        return lane.candidate(call, client, resource, config)

    def _topic(self, request: SendMessageRequest, client: GrpcClient) -> str:
        messages = request.messages
        if not messages or len(messages) > BATCH_MAX:
            text = f"a request has 1 to {BATCH_MAX} messages, not {len(messages)}"
            raise StatusError(StatusCode.MESSAGE_CORRUPTED, text)
        found = {topic_name(message.topic, client.namespace) for message in messages}
        if len(found) > 1:
            raise StatusError(StatusCode.MESSAGE_CORRUPTED, "the messages of one request have different topics")
        return found.pop()

    def _one(self, client: GrpcClient, config: TopicConfig, messages: list[Outgoing], on_answer: OnAnswer) -> None:
        message = messages[0]
        header = self._header(config, message.sys_flag, message.born_ms, message.message_group, message.properties)
        client.caller.ask(RequestCode.SEND_MESSAGE_V2, header, message.body, on_answer)

    def _batch(self, client: GrpcClient, config: TopicConfig, messages: list[Outgoing], on_answer: OnAnswer) -> None:
        if any(message.kind is not MessageKind.NORMAL for message in messages):
            text = "only normal messages can be sent together; send the others one by one"
            raise StatusError(StatusCode.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, text)
        items = [
            BatchItem(decompress(message.body, message.sys_flag), message.properties.encode()) for message in messages
        ]
        header = self._header(config, 0, messages[0].born_ms, "", "", batch=True)
        client.caller.ask(RequestCode.SEND_BATCH_MESSAGE, header, encode_batch(items), on_answer)

    def _header(
        self,
        config: TopicConfig,
        sys_flag: int,
        born_ms: int,
        message_group: str,
        properties: str,
        *,
        batch: bool = False,
    ) -> SendV2Header:
        return SendV2Header(
            producer_group=config.topic_name,
            topic=config.topic_name,
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_nums=config.write_queue_nums,
            queue_id=self._queue(config, message_group),
            sys_flag=sys_flag,
            born_timestamp=born_ms,
            flag=0,
            properties=properties,
            batch=batch or None,
        )

    def _queue(self, config: TopicConfig, message_group: str) -> int:
        """Messages of one group are in one queue; others take turns. Raises StatusError."""
        queues = config.write_queue_nums
        if not config.perm & _WRITE or queues < 1:
            raise StatusError(StatusCode.FORBIDDEN, f"topic {config.topic_name} has no queue that can be written")
        if message_group:
            return jump_hash(java_hash(message_group), queues)
        self.turn, turn = self.turn + 1, self.turn
        return turn % queues

    def _sent(
        self,
        call: GrpcCall,
        messages: list[Outgoing],
        learn: Learn | None,
        response: Received[Any] | ConnectionLostError,
    ) -> None:
        if learn is not None and not isinstance(response, ConnectionLostError) and not response.code:
            learn()
        if not call.is_open:
            return
        if isinstance(response, ConnectionLostError):
            self._refuse(call, None, status_of_error(response), messages)
            return
        if response.code not in _STORED:
            self._refuse(call, None, status_of_response(response), messages)
            return
        header = response.header_as(SendResponseHeader)
        if not response.code and len(messages) == 1 and not header.recall_handle and messages[0].kind in _PLAIN:
            data = sent_response(messages[0].message_id, header.queue_offset)
            if data is not None:
                call.respond(data)
                return
        status = status_of_response(response) if response.code else _OK
        entries = [_entry(message, header, index, status) for index, message in enumerate(messages)]
        call.respond(SendMessageResponse(status=status, entries=entries).encode())

    def _refuse(self, call: GrpcCall, request: Any, status: Status, messages: list[Outgoing] | None = None) -> None:
        ids = [message.message_id for message in messages or ()]
        if request is not None:
            found = (message.system_properties for message in request.messages[:BATCH_MAX])
            ids = [system.message_id if system else "" for system in found]
        entries = [SendResultEntry(status=status, message_id=each) for each in ids]
        call.respond(SendMessageResponse(status=status, entries=entries).encode())

    def answer_taken(self, call: GrpcCall, message_id: str, response: Received[Any]) -> None:
        """Answer a plain send that the lane took."""
        self._sent(call, [Outgoing(MessageKind.NORMAL, "", b"", 0, 0, message_id, "", 0)], None, response)

    # --- transactions ---

    async def end_transaction(
        self, client: GrpcClient, request: EndTransactionRequest, call: GrpcCall
    ) -> StatusResponse:
        topic = topic_name(request.topic, client.namespace)
        place = TransactionId.parse(request.transaction_id)
        ending = _ENDINGS.get(request.resolution)  # type: ignore[call-overload]  # a number from outside
        if ending is None:
            return StatusResponse(status=status_of(StatusCode.OK, "the transaction stays open; it is asked for later"))
        header = EndTransactionHeader(
            topic=topic,
            producer_group=topic,
            tran_state_table_offset=place.offset,
            commit_log_offset=place.position,
            commit_or_rollback=int(ending),
            from_transaction_check=request.source == TransactionSource.SERVER_CHECK,
            msg_id=request.message_id,
            transaction_id=place.key,
        )
        response = await client.caller.call(RequestCode.END_TRANSACTION, header)
        if response.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.ILLEGAL_OPERATION):
            raise StatusError(StatusCode.INVALID_TRANSACTION_ID, response.remark or "the transaction is not open")
        checked(response)
        return StatusResponse(status=_OK)

    async def recall(self, client: GrpcClient, request: RecallMessageRequest, call: GrpcCall) -> RecallMessageResponse:
        topic = topic_name(request.topic, client.namespace)
        kinds = accepted_kinds(self._ground.topic(topic, client.session).attributes)
        if MessageKind.DELAY not in kinds:
            text = f"topic {topic} has no delayed messages: its type is {kinds[0].name}"
            raise StatusError(StatusCode.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, text)
        header = RecallMessageHeader(producer_group=topic, topic=topic, recall_handle=request.recall_handle)
        response = await client.caller.call(RequestCode.RECALL_MESSAGE, header)
        if response.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.ILLEGAL_OPERATION):
            raise StatusError(StatusCode.BAD_REQUEST, response.remark or "the message cannot be recalled")
        found = checked(response).header_as(RecallMessageResponseHeader)
        return RecallMessageResponse(status=_OK, message_id=found.msg_id or "")


def _check_kind(message: Outgoing, config: TopicConfig) -> None:
    """Check that a message is of the topic's message type. Raises StatusError."""
    kinds = accepted_kinds(config.attributes)
    if message.kind not in kinds and not config.topic_name.startswith(DEAD_LETTER_PREFIX):
        wanted = ", ".join(kind.name for kind in kinds)
        text = f"topic {config.topic_name} takes messages of type {wanted}, not {message.kind.name}"
        advice = f"create it with attribute message.type={message.kind.name}"
        raise StatusError(StatusCode.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, f"{text}; {advice}")


def _entry(message: Outgoing, header: SendResponseHeader, index: int, status: Status) -> SendResultEntry:
    transaction = message.message_id
    if message.kind is MessageKind.TRANSACTION:
        _, position = decode_offset_id(header.msg_id)
        transaction = TransactionId(header.queue_offset, position, message.message_id).text()
    return SendResultEntry(
        status=status,
        message_id=message.message_id,
        transaction_id=transaction,
        offset=header.queue_offset + index,
        recall_handle=header.recall_handle or "",
    )


class TransactionId(NamedTuple):
    """Where a prepared message lies; clients hand it back, so nothing is kept for it. ``12:3456:01AB…``"""

    offset: int
    position: int
    key: str

    def text(self) -> str:
        return f"{self.offset}:{self.position}:{self.key}"

    @classmethod
    def parse(cls, text: str) -> TransactionId:
        """Parse a transaction id. Raises StatusError."""
        offset, _, rest = text.partition(":")
        position, _, key = rest.partition(":")
        numbers = (offset, position)
        if not all(each.isascii() and each.isdigit() and len(each) < 19 for each in numbers):
            text = "this is not a transaction id: use the one from the response to the send"
            raise StatusError(StatusCode.INVALID_TRANSACTION_ID, text)
        return cls(int(offset), int(position), key)


def jump_hash(key: int, buckets: int) -> int:
    """The jump consistent hash (Lamping and Veach, 2014): few keys move when there are more buckets."""
    key &= (1 << 64) - 1
    chosen = following = 0
    while following < buckets:
        chosen = following
        key = (key * 2862933555777941757 + 1) & ((1 << 64) - 1)
        following = int((chosen + 1) * (float(1 << 31) / float((key >> 33) + 1)))
    return chosen
