"""What requests and responses of RocketMQ 5's gRPC API are made of (package ``apache.rocketmq.v2``)."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from pyromq.wire.grpc.codes import StatusCode
from pyromq.wire.grpc.protobuf import Proto


class ProtoTime(Proto):
    """``google.protobuf.Timestamp`` and ``Duration``: seconds, and nanoseconds beside them."""

    seconds: Annotated[int, 1] = 0
    nanos: Annotated[int, 2] = 0

    @property
    def ms(self) -> int:
        return self.seconds * 1000 + self.nanos // 1_000_000


def time_of(ms: int) -> ProtoTime:
    seconds, rest = divmod(ms, 1000)
    return ProtoTime(seconds=seconds, nanos=rest * 1_000_000)


class Status(Proto):
    code: Annotated[int, 1] = 0
    message: Annotated[str, 2] = ""


def status_of(code: StatusCode, text: str = "") -> Status:
    """Clients show the text, so it is never empty."""
    return Status(code=int(code), message=text or code.name)


class Resource(Proto):
    """A topic or a group."""

    resource_namespace: Annotated[str, 1] = ""
    name: Annotated[str, 2] = ""


class FilterExpression(Proto):
    kind: Annotated[int, 1] = 0
    expression: Annotated[str, 2] = ""


class SubscriptionEntry(Proto):
    topic: Annotated[Resource | None, 1] = None
    expression: Annotated[FilterExpression | None, 2] = None


class ExponentialBackoff(Proto):
    initial: Annotated[ProtoTime | None, 1] = None
    max: Annotated[ProtoTime | None, 2] = None
    multiplier: Annotated[float, 3] = 0.0


class CustomizedBackoff(Proto):
    next: Annotated[list[ProtoTime], 1] = field(default_factory=list)


class RetryPolicy(Proto):
    max_attempts: Annotated[int, 1] = 0
    exponential_backoff: Annotated[ExponentialBackoff | None, 2] = None
    customized_backoff: Annotated[CustomizedBackoff | None, 3] = None


class EndpointAddress(Proto):
    host: Annotated[str, 1] = ""
    port: Annotated[int, 2] = 0


class Endpoints(Proto):
    scheme: Annotated[int, 1] = 0
    addresses: Annotated[list[EndpointAddress], 2] = field(default_factory=list)


class RouteBroker(Proto):
    """``Broker`` of the API; id 0 is the master."""

    name: Annotated[str, 1] = ""
    id: Annotated[int, 2] = 0
    endpoints: Annotated[Endpoints | None, 3] = None


class MessageQueue(Proto):
    topic: Annotated[Resource | None, 1] = None
    id: Annotated[int, 2] = 0
    permission: Annotated[int, 3] = 0
    broker: Annotated[RouteBroker | None, 4] = None
    accept_message_types: Annotated[list[int], 5] = field(default_factory=list)


class Assignment(Proto):
    message_queue: Annotated[MessageQueue | None, 1] = None


class Digest(Proto):
    kind: Annotated[int, 1] = 0
    checksum: Annotated[str, 2] = ""


class DeadLetterOrigin(Proto):
    """``DeadLetterQueue`` of the API: where a dead letter came from."""

    topic: Annotated[str, 1] = ""
    message_id: Annotated[str, 2] = ""


class SystemProperties(Proto):
    tag: Annotated[str | None, 1] = None
    keys: Annotated[list[str], 2] = field(default_factory=list)
    message_id: Annotated[str, 3] = ""
    body_digest: Annotated[Digest | None, 4] = None
    body_encoding: Annotated[int, 5] = 0
    message_type: Annotated[int, 6] = 0
    born_timestamp: Annotated[ProtoTime | None, 7] = None
    born_host: Annotated[str, 8] = ""
    store_timestamp: Annotated[ProtoTime | None, 9] = None
    store_host: Annotated[str, 10] = ""
    delivery_timestamp: Annotated[ProtoTime | None, 11] = None
    receipt_handle: Annotated[str | None, 12] = None
    queue_id: Annotated[int, 13] = 0
    queue_offset: Annotated[int | None, 14] = None
    invisible_duration: Annotated[ProtoTime | None, 15] = None
    delivery_attempt: Annotated[int | None, 16] = None
    message_group: Annotated[str | None, 17] = None
    trace_context: Annotated[str | None, 18] = None
    orphaned_transaction_recovery_duration: Annotated[ProtoTime | None, 19] = None
    dead_letter_queue: Annotated[DeadLetterOrigin | None, 20] = None
    lite_topic: Annotated[str | None, 21] = None
    priority: Annotated[int | None, 22] = None


class GrpcMessage(Proto):
    """``Message`` of the API."""

    topic: Annotated[Resource | None, 1] = None
    user_properties: Annotated[dict[str, str], 2] = field(default_factory=dict)
    system_properties: Annotated[SystemProperties | None, 3] = None
    body: Annotated[bytes, 4] = b""


class UserAgent(Proto):
    """``UA`` of the API."""

    language: Annotated[int, 1] = 0
    version: Annotated[str, 2] = ""
    platform: Annotated[str, 3] = ""
    hostname: Annotated[str, 4] = ""


class MetricSettings(Proto):
    on: Annotated[bool, 1] = False
    endpoints: Annotated[Endpoints | None, 2] = None


class Publishing(Proto):
    topics: Annotated[list[Resource], 1] = field(default_factory=list)
    max_body_size: Annotated[int, 2] = 0
    validate_message_type: Annotated[bool, 3] = False


class GroupSubscription(Proto):
    """``Subscription`` of the API."""

    group: Annotated[Resource | None, 1] = None
    subscriptions: Annotated[list[SubscriptionEntry], 2] = field(default_factory=list)
    fifo: Annotated[bool | None, 3] = None
    receive_batch_size: Annotated[int | None, 4] = None
    long_polling_timeout: Annotated[ProtoTime | None, 5] = None
    lite_subscription_quota: Annotated[int | None, 6] = None
    max_lite_topic_size: Annotated[int | None, 7] = None


class GrpcClientSettings(Proto):
    """``Settings`` of the API: what a client says of itself, and what the server completes."""

    client_type: Annotated[int | None, 1] = None
    access_point: Annotated[Endpoints | None, 2] = None
    backoff_policy: Annotated[RetryPolicy | None, 3] = None
    request_timeout: Annotated[ProtoTime | None, 4] = None
    publishing: Annotated[Publishing | None, 5] = None
    subscription: Annotated[GroupSubscription | None, 6] = None
    user_agent: Annotated[UserAgent | None, 7] = None
    metric: Annotated[MetricSettings | None, 8] = None
    client_properties: Annotated[dict[str, str], 9] = field(default_factory=dict)
