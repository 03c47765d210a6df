"""Telemetry, Heartbeat and NotifyClientTermination: what clients say of themselves, and what the broker asks of them.

client ─ settings ─▶ registered as producer or member, completed and sent back
broker ─ 39 check of a transaction ─▶ recover_orphaned_transaction_command, answered by EndTransaction
broker ─ 307 running info ─▶ print_thread_stack_trace_command      broker ─ 309 ─▶ verify_message_command
"""

from __future__ import annotations

import asyncio
import logging
import re
import weakref
from typing import Any, Final
from uuid import uuid4

from pyromq.broker.grpc.clients import GrpcClient, GrpcClients
from pyromq.broker.grpc.ground import FrontGround
from pyromq.broker.grpc.messages import BODY_BYTES_MAX, Delivery, delivered
from pyromq.broker.grpc.names import group_name, topic_name
from pyromq.broker.grpc.receiving import expression_of
from pyromq.broker.grpc.rpc import checked, read_message
from pyromq.broker.grpc.sending import TransactionId
from pyromq.broker.grpc.settling import Settling
from pyromq.broker.grpc.statuses import StatusError, status_of_error
from pyromq.broker.popping.calls import COUNT_MAX
from pyromq.errors import MQError
from pyromq.model.namespaces import unwrap
from pyromq.model.topic import GroupConfig
from pyromq.net.http2 import GrpcCall
from pyromq.wire.codes import RequestCode
from pyromq.wire.grpc.codes import ClientType, StatusCode
from pyromq.wire.grpc.definitions import (
    CustomizedBackoff,
    ExponentialBackoff,
    GrpcClientSettings,
    MetricSettings,
    Publishing,
    Resource,
    RetryPolicy,
    SubscriptionEntry,
    status_of,
    time_of,
)
from pyromq.wire.grpc.framing import GrpcError, GrpcStatus
from pyromq.wire.grpc.services import (
    HeartbeatRequest,
    Nonce,
    RecoverTransactionCommand,
    StatusResponse,
    TelemetryCommand,
    TerminationRequest,
    VerifyMessageCommand,
)
from pyromq.wire.headers.consumer import UnregisterClientHeader
from pyromq.wire.json import java_json
from pyromq.wire.json.heartbeat import (
    ConsumerData,
    ConsumeType,
    Heartbeat,
    ProducerData,
    Subscription,
    encode_heartbeat,
)
from pyromq.wire.received import Received
from pyromq.wire.record import Record, decode_record

logger = logging.getLogger(__name__)

LONG_POLLING_MS: Final = 20_000
_LITE_QUOTA: Final = 2_000
_LITE_TOPIC_SIZE: Final = 64
_RETRY_STEPS_S: Final = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
_SENT: Final = (10, 1_000, 2.0)  # backoff of producers: first and longest in ms, and by what it grows
_ASKED_MAX: Final = 1_000  # questions to one client that are not answered yet
_SETTINGS_BYTES_MAX: Final = 128 << 10  # they are kept for as long as the client is there
_PROPERTIES_MAX: Final = 32
_PROPERTY_BYTES_MAX: Final = 4 << 10
_is_property = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{0,63}").fullmatch
_CONSUMERS: Final = (ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER, ClientType.PULL_CONSUMER)
_OK: Final = status_of(StatusCode.OK)
_NODE: Final = ("HTTP", "NODE_JS")  # its start waits for settings that come after its routes: they come again
_AGAIN_S: Final = (1.0, 3.0, 8.0, 20.0)


class Telemetry:
    """Answers three RPCs, and speaks to clients on their streams."""

    def __init__(self, ground: FrontGround, clients: GrpcClients, settling: Settling) -> None:
        self._ground = ground
        self._clients = clients
        self._settling = settling
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: dict[str, tuple[GrpcClient, Received[Any]]] = {}  # by nonce
        clients.on_request = self.ask

    # --- what clients say ---

    def command(self, call: GrpcCall, data: bytes) -> None:
        """One message of a telemetry stream."""
        command = read_message(TelemetryCommand, data)
        try:
            client = self._clients.of(call)
            if command.settings is not None:
                if len(data) > _SETTINGS_BYTES_MAX:
                    text = f"settings of {len(data)} bytes, at most {_SETTINGS_BYTES_MAX} are allowed"
                    raise StatusError(StatusCode.BAD_REQUEST, text)
                self._begin(client, call)
                self._register(client, call, command.settings)
            elif command.thread_stack_trace is not None:
                self._answered(command.thread_stack_trace.nonce, client, command)
            elif command.verify_message_result is not None:
                self._answered(command.verify_message_result.nonce, client, command)
        except MQError as error:
            status = status_of_error(error)
            is_theirs = 40_000 <= status.code < 50_000
            raise GrpcError(
                GrpcStatus.INVALID_ARGUMENT if is_theirs else GrpcStatus.UNAVAILABLE,
                f"{StatusCode(status.code).name}: {status.message}",
            ) from error

    def _begin(self, client: GrpcClient, call: GrpcCall) -> None:
        client.telemetry = call
        call.on_half_closed = call.finish

    def _register(self, client: GrpcClient, call: GrpcCall, settings: GrpcClientSettings) -> None:
        """Register a client with the settings it sent. Raises MQError."""
        _check_client_properties(settings.client_properties)
        if settings.publishing is None and settings.subscription is None:
            raise StatusError(StatusCode.BAD_REQUEST, "settings have neither publishing nor subscription")
        if settings.client_type in (ClientType.LITE_PUSH_CONSUMER, ClientType.LITE_SIMPLE_CONSUMER):
            raise StatusError(StatusCode.NOT_IMPLEMENTED, "lite consumers are not served; use a push consumer")
        client.settings = settings
        future = client.caller.call(RequestCode.HEART_BEAT, None, encode_heartbeat(self._heartbeat(client)))

        def registered(done: Any) -> None:
            if done.cancelled() or not call.is_open:
                return
            try:
                checked(done.result())
                completed = self._completed(client, settings)
            except MQError as error:
                status = status_of_error(error)
                call.finish(GrpcStatus.INVALID_ARGUMENT, f"{StatusCode(status.code).name}: {status.message}")
                return
            command = TelemetryCommand(status=_OK, settings=completed).encode()
            call.send(command)
            if client.caller.language in _NODE:
                _repeat(call, command)

        future.add_done_callback(registered)

    def _heartbeat(self, client: GrpcClient) -> Heartbeat:
        """What the broker should know of a client, as remoting says it. Raises MQError."""
        settings, namespace = client.settings, client.namespace
        producers: list[ProducerData] = []
        consumers: list[ConsumerData] = []
        if settings is not None and settings.publishing is not None:
            topics = {topic_name(topic, namespace) for topic in settings.publishing.topics}
            producers = [ProducerData(group_name=topic) for topic in sorted(topics)]  # topics stand for groups
        if settings is not None and settings.subscription is not None:
            is_push = settings.client_type == ClientType.PUSH_CONSUMER
            consumers = [
                ConsumerData(
                    group_name=group_name(settings.subscription.group, namespace),
                    consume_type=ConsumeType.CONSUME_PASSIVELY if is_push else ConsumeType.CONSUME_ACTIVELY,
                    subscription_data_set=tuple(
                        self._subscription(entry, namespace) for entry in settings.subscription.subscriptions
                    ),
                )
            ]
        return Heartbeat(
            client_id=client.client_id, producer_data_set=tuple(producers), consumer_data_set=tuple(consumers)
        )

    def _subscription(self, entry: SubscriptionEntry, namespace: str) -> Subscription:
        expression, kind = expression_of(entry.expression)
        tags = frozenset(part.strip() for part in expression.split("||")) if kind == "TAG" and expression != "*" else ()
        return Subscription(
            topic=topic_name(entry.topic, namespace),
            sub_string=expression,
            sub_version=self._ground.clock.now_ms(),
            expression_type=kind,
            tags_set=frozenset(tags),
        )

    # --- what the server completes ---

    def _completed(self, client: GrpcClient, settings: GrpcClientSettings) -> GrpcClientSettings:
        found = GrpcClientSettings(
            client_type=settings.client_type,
            access_point=settings.access_point,
            request_timeout=settings.request_timeout,
            user_agent=settings.user_agent,
            metric=MetricSettings(on=False),
            client_properties=settings.client_properties,
        )
        if settings.publishing is not None:
            first_ms, longest_ms, multiplier = _SENT
            found.backoff_policy = RetryPolicy(
                max_attempts=3,
                exponential_backoff=ExponentialBackoff(
                    initial=time_of(first_ms), max=time_of(longest_ms), multiplier=multiplier
                ),
            )
            found.publishing = Publishing(
                topics=settings.publishing.topics, max_body_size=BODY_BYTES_MAX, validate_message_type=True
            )
        else:
            assert settings.subscription is not None
            group = group_name(settings.subscription.group, client.namespace)
            config = self._ground.tables.groups.table.get(group) or GroupConfig(group_name=group)
            subscription = settings.subscription
            subscription.fifo = config.consume_message_orderly
            subscription.receive_batch_size = COUNT_MAX
            subscription.long_polling_timeout = time_of(LONG_POLLING_MS)
            subscription.lite_subscription_quota = _LITE_QUOTA
            subscription.max_lite_topic_size = _LITE_TOPIC_SIZE
            found.subscription = subscription
            found.backoff_policy = retry_policy(config)
        return found

    # --- heartbeat, termination ---

    async def heartbeat(self, client: GrpcClient, request: HeartbeatRequest, call: GrpcCall) -> StatusResponse:
        if client.settings is None:
            text = "the broker does not know this client yet: it has sent no settings on a telemetry stream"
            raise StatusError(StatusCode.UNRECOGNIZED_CLIENT_TYPE, text)
        checked(await client.caller.call(RequestCode.HEART_BEAT, None, encode_heartbeat(self._heartbeat(client))))
        return StatusResponse(status=_OK)

    async def terminate(self, client: GrpcClient, request: TerminationRequest, call: GrpcCall) -> StatusResponse:
        heartbeat = self._heartbeat(client)
        groups = [(None, each.group_name) for each in heartbeat.consumer_data_set]
        pairs = [*groups, *((each.group_name, None) for each in heartbeat.producer_data_set)]
        for producer_group, consumer_group in pairs:
            header = UnregisterClientHeader(
                client_id=client.client_id, producer_group=producer_group, consumer_group=consumer_group
            )
            checked(await client.caller.call(RequestCode.UNREGISTER_CLIENT, header))
        self.dismiss(client, "the client says goodbye")
        return StatusResponse(status=_OK)

    def dismiss(self, client: GrpcClient, reason: str) -> None:
        """Forget a client, and show others what it had."""
        self._clients.drop(client)
        task = asyncio.get_running_loop().create_task(self._settling.release(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: client.close(reason))

    # --- what the broker asks ---

    def ask(self, client: GrpcClient, request: Received[Any]) -> None:
        """A request of the broker's to this client."""
        stream = client.telemetry
        if stream is None or not stream.is_open:
            return
        if request.code == RequestCode.CHECK_TRANSACTION_STATE:
            record = decode_record(request.body)
            place = TransactionId(
                request.header.tran_state_table_offset, request.header.commit_log_offset, request.header.msg_id or ""
            )
            command = RecoverTransactionCommand(
                message=delivered(record, Delivery(_topic(client, record))), transaction_id=place.text()
            )
            stream.send(TelemetryCommand(status=_OK, recover_orphaned_transaction_command=command).encode())
        elif request.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            nonce = self._nonce(client, request)
            print_stack = Nonce(nonce=nonce)
            stream.send(TelemetryCommand(status=_OK, print_thread_stack_trace_command=print_stack).encode())
        elif request.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            record = decode_record(request.body)
            verify = VerifyMessageCommand(
                nonce=self._nonce(client, request), message=delivered(record, Delivery(_topic(client, record)))
            )
            stream.send(TelemetryCommand(status=_OK, verify_message_command=verify).encode())

    def _nonce(self, client: GrpcClient, request: Received[Any]) -> str:
        if len(self._asked) >= _ASKED_MAX:
            self._asked.pop(next(iter(self._asked)))
        nonce = uuid4().hex
        self._asked[nonce] = client, request
        return nonce

    def _answered(self, nonce: str, client: GrpcClient, command: TelemetryCommand) -> None:
        owner, request = self._asked.get(nonce, (None, None))
        if owner is not client or request is None:
            return
        del self._asked[nonce]
        status = command.status or _OK
        if request.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            trace = command.thread_stack_trace
            text = (trace.thread_stack_trace if trace else None) or status.message
            client.caller.answer(request, running_info(client, text))
        elif status.code == StatusCode.OK:
            client.caller.answer(request, consume_result("CR_SUCCESS", status.message))
        else:
            client.caller.answer(request, consume_result("CR_LATER", status.message))

    def reconnect(self, reason: str) -> None:
        """Tell clients that this endpoint goes away, so that they open their streams anew and repeat what they asked.

        Not those of Node.js: 1.0.8 takes its listeners off the old stream, whose end is then an error of the process.
        """
        for client in self._clients:
            is_node = client.caller.language in _NODE
            if client.telemetry is not None and client.telemetry.is_open and not is_node:
                command = TelemetryCommand(
                    status=status_of(StatusCode.OK, reason), reconnect_endpoints_command=Nonce(nonce=uuid4().hex)
                )
                client.telemetry.send(command.encode())


def _repeat(call: GrpcCall, command: bytes) -> None:
    """Send a command again, some times; of several commands the last one. Timers do not keep a call that has ended."""
    is_first, call.context = call.context is None, command
    if is_first:
        for again_s in _AGAIN_S:
            asyncio.get_running_loop().call_later(again_s, _send_again, weakref.ref(call))


def _send_again(reference: weakref.ref[GrpcCall]) -> None:
    if (call := reference()) is not None:
        call.send(call.context)


def _topic(client: GrpcClient, record: Record) -> Resource:
    name = unwrap(client.namespace, record.topic.decode("utf-8", "replace"))
    return Resource(resource_namespace=client.namespace, name=name)


def _check_client_properties(found: dict[str, str]) -> None:
    """Check client properties, which are shown to operators and decide nothing. Raises StatusError."""
    size = sum(len(name) + len(value.encode()) for name, value in found.items())
    is_good = all(_is_property(name) and len(value) <= 256 for name, value in found.items())
    if len(found) > _PROPERTIES_MAX or size > _PROPERTY_BYTES_MAX or not is_good:
        text = (
            f"client properties: at most {_PROPERTIES_MAX}, names of letters, digits, _ . - up to 64, values up to 256"
        )
        raise StatusError(StatusCode.INVALID_CLIENT_PROPERTIES, text)


def retry_policy(config: GroupConfig) -> RetryPolicy:
    """How consumers of a group wait before a message is tried again, as clients compute it."""
    attempts = max(0, config.retry_max_times) + 1
    policy = config.group_retry_policy
    growing = policy.get("exponentialRetryPolicy") or {}
    if policy.get("type") == "EXPONENTIAL":
        backoff = ExponentialBackoff(
            initial=time_of(int(growing.get("initial", 5_000))),
            max=time_of(int(growing.get("max", 7_200_000))),
            multiplier=float(growing.get("multiplier", 2)),
        )
        return RetryPolicy(max_attempts=attempts, exponential_backoff=backoff)
    steps = (policy.get("customizedRetryPolicy") or {}).get("next") or [each * 1000 for each in _RETRY_STEPS_S]
    return RetryPolicy(
        max_attempts=attempts, customized_backoff=CustomizedBackoff(next=[time_of(int(each)) for each in steps])
    )


def running_info(client: GrpcClient, stacks: str) -> bytes:
    """What tools expect of a consumer (RocketMQ: ConsumerRunningInfo), as far as a gRPC client says it."""
    properties = {"PROP_CLIENT_VERSION": client.version, "pyromq.protocol": "grpc"}
    more: dict[str, object] = {"subscriptionSet": [], "mqTable": {}, "mqPopTable": {}, "statusTable": {}}
    return java_json.dumps({"properties": properties, **more, "jstack": stacks})


def consume_result(verdict: str, remark: str) -> bytes:
    """The outcome of a message that a client was given by hand (RocketMQ: ConsumeMessageDirectlyResult)."""
    fields = {"order": False, "autoCommit": True, "consumeResult": verdict, "remark": remark, "spentTimeMills": 0}
    return java_json.dumps(fields)
