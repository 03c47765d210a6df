"""The hook that makes spans and metrics.

    span              kind      when                                          parent              links
    send <topic>      PRODUCER  a message is sent, with all its attempts      the caller's
    create <topic>    PRODUCER  for each message of a batch                   the caller's
    send <topic>      CLIENT    a batch, or a message with a context          the caller's        of the messages
    poll <topic>      CLIENT    a pull consumer hands messages out            the caller's        of the messages
    process <topic>   CONSUMER  a listener runs, and the span is current      the message's, or   of the messages
                                                                              none for a batch

A failed attempt of a send is an event of its span; a message that comes again has a process span for each delivery, all
with the sender's span as parent. What is wrong here is logged and costs no message (``client.core.hooks``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider, set_span_in_context

from pyromq.aio import Message, ReceivedMessage
from pyromq.hooks import ConsumeCode, ConsumeHook, Delivery, SendHook, Sending
from pyromq.integrations.opentelemetry import attributes as names
from pyromq.integrations.opentelemetry.attributes import Attributes
from pyromq.integrations.opentelemetry.propagation import context_of, creation_context, span_context_of, with_context

_SCOPE: Final = "pyromq.integrations.opentelemetry"
_SCHEMA: Final = "https://opentelemetry.io/schemas/1.37.0"
_ENDS: Final = {ConsumeCode.FAILED: "the listener asked for a retry", ConsumeCode.TIME_OUT: "the listener was too slow"}


class OpenTelemetryHook(SendHook, ConsumeHook):
    """Hand it to producers and consumers with ``hooks=[…]``; one may serve all of them.

    Without providers it uses the global ones, also those that are set later.
    """

    def __init__(
        self, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        self.is_active = True  # an instrumentor that was undone leaves its hook in clients that are open
        self._tracer = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider, schema_url=_SCHEMA)
        meter = metrics.get_meter(_SCOPE, meter_provider=meter_provider, schema_url=_SCHEMA)
        self._sent = meter.create_counter(
            "messaging.client.sent.messages",
            "{message}",
            "Number of messages producer attempted to send to the broker.",
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            "{message}",
            "Number of messages that were delivered to the application.",
        )
        self._operation_s = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of messaging operation initiated by a producer or consumer client.",
        )
        self._process_s = meter.create_histogram("messaging.process.duration", "s", "Duration of processing operation.")

    def _is_silent(self) -> bool:
        return not self.is_active or bool(contexts.get_value(_SUPPRESS_INSTRUMENTATION_KEY))

    # --- sends ---

    def sending(self, send: Sending) -> AbstractContextManager[object] | None:
        """A span, whose context goes along with the message."""
        return None if self._is_silent() else self._sending(send)

    @contextmanager
    def _sending(self, send: Sending) -> Iterator[None]:
        links, is_batch = self._links_after_creating(send), len(send.messages) > 1
        first = send.messages[0]
        given = names.of_operation("send", "send", first.topic, len(send.messages) if is_batch else None)
        if not is_batch:
            given.update(names.of_message(first, is_prepared=send.is_prepared))
        kind = SpanKind.CLIENT if links else SpanKind.PRODUCER
        span = self._tracer.start_span(f"send {first.topic}", kind=kind, attributes=given, links=links)
        if not links:
            send.replace(0, with_context(first, set_span_in_context(span)))
        began = time.perf_counter()
        try:
            yield
        except BaseException as error:
            given[names.ERROR] = _failed(span, error)
            raise
        finally:
            for attempt in send.failed:
                attributes = {"error.type": type(attempt.error).__name__, "pyromq.broker": attempt.broker}
                span.add_event("attempt failed", {**attributes, "exception.message": str(attempt.error)})
            given.update(names.of_receipts(send.receipts, send))
            span.set_attributes(given)
            span.end()
            attributes = names.for_metrics(given)
            self._sent.add(len(send.messages), attributes)
            self._operation_s.record(time.perf_counter() - began, attributes)

    def _links_after_creating(self, send: Sending) -> list[Link]:
        """Contexts that the messages carry already, or get here when there are several; none for a usual message."""
        links = []
        for number, message in enumerate(send.messages):
            if (known := creation_context(message)) is not None:
                links.append(Link(known))
            elif len(send.messages) > 1:
                span = self._created(message)
                send.replace(number, with_context(message, set_span_in_context(span)))
                if span.get_span_context().is_valid:
                    links.append(Link(span.get_span_context()))
        return links

    def _created(self, message: Message) -> Span:
        given = names.of_operation("create", "create", message.topic, None) | names.of_message(message)
        span = self._tracer.start_span(f"create {message.topic}", kind=SpanKind.PRODUCER, attributes=given)
        span.end()
        return span

    # --- polls ---

    def after_poll(self, messages: Sequence[ReceivedMessage], group: str, elapsed_ms: int) -> None:
        """A span that has ended; what the application does with the messages has spans of its own making."""
        if self._is_silent():
            return
        given = {
            **names.of_operation("poll", "receive", messages[0].topic, len(messages)),
            **names.of_received(messages),
            names.GROUP: group,
        }
        now_ns = time.time_ns()
        span = self._tracer.start_span(
            f"poll {messages[0].topic}",
            kind=SpanKind.CLIENT,
            attributes=given,
            links=_links(messages),
            start_time=now_ns - elapsed_ms * 1_000_000,
        )
        span.end(now_ns)
        attributes = names.for_metrics(given)
        self._consumed.add(len(messages), attributes)
        self._operation_s.record(elapsed_ms / 1000, attributes)

    # --- listeners ---

    def listening(self, delivery: Delivery) -> AbstractContextManager[object] | None:
        """A span that is current while the listener runs, with the baggage that travelled with its message."""
        return None if self._is_silent() else self._listening(delivery)

    @contextmanager
    def _listening(self, delivery: Delivery) -> Iterator[None]:
        messages, topic = delivery.messages, delivery.messages[0].topic
        given = names.of_operation("process", "process", topic, len(messages) if len(messages) > 1 else None)
        given.update(names.of_received(messages))
        given[names.GROUP] = delivery.group
        parent = context_of(messages[0]) if len(messages) == 1 else contexts.Context()
        span = self._tracer.start_span(
            f"process {topic}", parent, kind=SpanKind.CONSUMER, attributes=given, links=_links(messages)
        )
        began, token = time.perf_counter(), contexts.attach(set_span_in_context(span, parent))
        try:
            yield
        except BaseException as error:
            given[names.ERROR] = _failed(span, error)
            raise
        finally:
            contexts.detach(token)
            if delivery.code is not None and (text := _ENDS.get(delivery.code)):
                given[names.ERROR] = delivery.code.name
                span.set_attribute(names.ERROR, delivery.code.name)
                span.set_status(Status(StatusCode.ERROR, text))
            span.end()
            self._processed(len(messages), time.perf_counter() - began, given)

    def _processed(self, count: int, seconds: float, given: Attributes) -> None:
        attributes = names.for_metrics(given)
        self._consumed.add(count, attributes)
        self._process_s.record(seconds, attributes)


def _links(messages: Sequence[ReceivedMessage]) -> list[Link]:
    return [Link(found) for message in messages if (found := span_context_of(message)) is not None]


def _failed(span: Span, error: BaseException) -> str:
    """Notes it in the span; returns its type."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    span.record_exception(error)
    span.set_attribute(names.ERROR, name)
    span.set_status(Status(StatusCode.ERROR, f"{kind.__name__}: {error}"))
    return name
