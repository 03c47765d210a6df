"""Requests and responses of ``apache.rocketmq.v2.MessagingService``, one pair for each RPC."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import field

from pyromq.wire.grpc.definitions import (
    Assignment,
    Endpoints,
    FilterExpression,
    GrpcClientSettings,
    GrpcMessage,
    MessageQueue,
    ProtoTime,
    Resource,
    Status,
)
from pyromq.wire.grpc.protobuf import Proto

SERVICE: Final = "/apache.rocketmq.v2.MessagingService/"


class StatusResponse(Proto):
    """The response of every RPC that says how it went and nothing else."""

    status: Annotated[Status | None, 1] = None


class QueryRouteRequest(Proto):
    topic: Annotated[Resource | None, 1] = None
    endpoints: Annotated[Endpoints | None, 2] = None


class QueryRouteResponse(Proto):
    status: Annotated[Status | None, 1] = None
    message_queues: Annotated[list[MessageQueue], 2] = field(default_factory=list)


class SendMessageRequest(Proto):
    messages: Annotated[list[GrpcMessage], 1] = field(default_factory=list)


class SendResultEntry(Proto):
    status: Annotated[Status | None, 1] = None
    message_id: Annotated[str, 2] = ""
    transaction_id: Annotated[str, 3] = ""
    offset: Annotated[int, 4] = 0
    recall_handle: Annotated[str, 5] = ""


class SendMessageResponse(Proto):
    status: Annotated[Status | None, 1] = None
    entries: Annotated[list[SendResultEntry], 2] = field(default_factory=list)


class QueryAssignmentRequest(Proto):
    topic: Annotated[Resource | None, 1] = None
    group: Annotated[Resource | None, 2] = None
    endpoints: Annotated[Endpoints | None, 3] = None


class QueryAssignmentResponse(Proto):
    status: Annotated[Status | None, 1] = None
    assignments: Annotated[list[Assignment], 2] = field(default_factory=list)


class ReceiveMessageRequest(Proto):
    group: Annotated[Resource | None, 1] = None
    message_queue: Annotated[MessageQueue | None, 2] = None
    filter_expression: Annotated[FilterExpression | None, 3] = None
    batch_size: Annotated[int, 4] = 0
    invisible_duration: Annotated[ProtoTime | None, 5] = None
    auto_renew: Annotated[bool, 6] = False
    long_polling_timeout: Annotated[ProtoTime | None, 7] = None
    attempt_id: Annotated[str | None, 8] = None


class ReceiveMessageResponse(Proto):
    """One of the three; a stream of them is the response."""

    status: Annotated[Status | None, 1] = None
    message: Annotated[GrpcMessage | None, 2] = None
    delivery_timestamp: Annotated[ProtoTime | None, 3] = None


class AckMessageEntry(Proto):
    message_id: Annotated[str, 1] = ""
    receipt_handle: Annotated[str, 2] = ""
    lite_topic: Annotated[str | None, 3] = None


class AckMessageRequest(Proto):
    group: Annotated[Resource | None, 1] = None
    topic: Annotated[Resource | None, 2] = None
    entries: Annotated[list[AckMessageEntry], 3] = field(default_factory=list)


class AckMessageResultEntry(Proto):
    message_id: Annotated[str, 1] = ""
    receipt_handle: Annotated[str, 2] = ""
    status: Annotated[Status | None, 3] = None


class AckMessageResponse(Proto):
    status: Annotated[Status | None, 1] = None
    entries: Annotated[list[AckMessageResultEntry], 2] = field(default_factory=list)


class ChangeInvisibleDurationRequest(Proto):
    group: Annotated[Resource | None, 1] = None
    topic: Annotated[Resource | None, 2] = None
    receipt_handle: Annotated[str, 3] = ""
    invisible_duration: Annotated[ProtoTime | None, 4] = None
    message_id: Annotated[str, 5] = ""
    lite_topic: Annotated[str | None, 6] = None
    suspend: Annotated[bool | None, 7] = None


class ChangeInvisibleDurationResponse(Proto):
    status: Annotated[Status | None, 1] = None
    receipt_handle: Annotated[str, 2] = ""


class ForwardToDeadLetterRequest(Proto):
    """``ForwardMessageToDeadLetterQueueRequest`` of the API."""

    group: Annotated[Resource | None, 1] = None
    topic: Annotated[Resource | None, 2] = None
    receipt_handle: Annotated[str, 3] = ""
    message_id: Annotated[str, 4] = ""
    delivery_attempt: Annotated[int, 5] = 0
    max_delivery_attempts: Annotated[int, 6] = 0
    lite_topic: Annotated[str | None, 7] = None


class HeartbeatRequest(Proto):
    group: Annotated[Resource | None, 1] = None
    client_type: Annotated[int, 2] = 0


class TerminationRequest(Proto):
    """``NotifyClientTerminationRequest`` of the API."""

    group: Annotated[Resource | None, 1] = None


class EndTransactionRequest(Proto):
    topic: Annotated[Resource | None, 1] = None
    message_id: Annotated[str, 2] = ""
    transaction_id: Annotated[str, 3] = ""
    resolution: Annotated[int, 4] = 0
    source: Annotated[int, 5] = 0
    trace_context: Annotated[str, 6] = ""


class RecallMessageRequest(Proto):
    topic: Annotated[Resource | None, 1] = None
    recall_handle: Annotated[str, 2] = ""


class RecallMessageResponse(Proto):
    status: Annotated[Status | None, 1] = None
    message_id: Annotated[str, 2] = ""


class PullMessageRequest(Proto):
    group: Annotated[Resource | None, 1] = None
    message_queue: Annotated[MessageQueue | None, 2] = None
    offset: Annotated[int, 3] = 0
    batch_size: Annotated[int, 4] = 0
    filter_expression: Annotated[FilterExpression | None, 5] = None
    long_polling_timeout: Annotated[ProtoTime | None, 6] = None


class PullMessageResponse(Proto):
    """One of the three; a stream of them is the response."""

    status: Annotated[Status | None, 1] = None
    message: Annotated[GrpcMessage | None, 2] = None
    next_offset: Annotated[int | None, 3] = None


class UpdateOffsetRequest(Proto):
    group: Annotated[Resource | None, 1] = None
    message_queue: Annotated[MessageQueue | None, 2] = None
    offset: Annotated[int, 3] = 0


class GetOffsetRequest(Proto):
    group: Annotated[Resource | None, 1] = None
    message_queue: Annotated[MessageQueue | None, 2] = None


class QueryOffsetRequest(Proto):
    message_queue: Annotated[MessageQueue | None, 1] = None
    query_offset_policy: Annotated[int, 2] = 0
    timestamp: Annotated[ProtoTime | None, 3] = None


class OffsetResponse(Proto):
    """The response of GetOffset and QueryOffset."""

    status: Annotated[Status | None, 1] = None
    offset: Annotated[int, 2] = 0


class SyncLiteSubscriptionRequest(Proto):
    action: Annotated[int, 1] = 0
    topic: Annotated[Resource | None, 2] = None
    group: Annotated[Resource | None, 3] = None
    lite_topic_set: Annotated[list[str], 4] = field(default_factory=list)
    version: Annotated[int | None, 5] = None


# --- telemetry ---


class ThreadStackTrace(Proto):
    nonce: Annotated[str, 1] = ""
    thread_stack_trace: Annotated[str | None, 2] = None


class Nonce(Proto):
    """A command that has nothing but the number of the question; also the result of a verification."""

    nonce: Annotated[str, 1] = ""


class RecoverTransactionCommand(Proto):
    """``RecoverOrphanedTransactionCommand`` of the API."""

    message: Annotated[GrpcMessage | None, 1] = None
    transaction_id: Annotated[str, 2] = ""


class VerifyMessageCommand(Proto):
    nonce: Annotated[str, 1] = ""
    message: Annotated[GrpcMessage | None, 2] = None


class TelemetryCommand(Proto):
    """A status, and one of the others."""

    status: Annotated[Status | None, 1] = None
    settings: Annotated[GrpcClientSettings | None, 2] = None
    thread_stack_trace: Annotated[ThreadStackTrace | None, 3] = None
    verify_message_result: Annotated[Nonce | None, 4] = None
    recover_orphaned_transaction_command: Annotated[RecoverTransactionCommand | None, 5] = None
    print_thread_stack_trace_command: Annotated[Nonce | None, 6] = None
    verify_message_command: Annotated[VerifyMessageCommand | None, 7] = None
    reconnect_endpoints_command: Annotated[Nonce | None, 8] = None
