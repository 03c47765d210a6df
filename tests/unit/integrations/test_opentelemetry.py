"""OpenTelemetry with its real SDK: spans by the conventions, contexts in properties, nothing that costs a message."""

from __future__ import annotations

import asyncio
import threading
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import pyromq
from pyromq import Message, Producer, PullConsumer, PushConsumer, TransactionProducer, aio
from pyromq.errors import SendFailedError
from pyromq.hooks import install, uninstall
from pyromq.integrations.opentelemetry import OpenTelemetryHook, PyroMQInstrumentor, context_of, with_context
from pyromq.results import ConsumeStatus
from pyromq.testing import LoopbackBroker

Attributes = dict[str, Any]


class Telemetry:
    """An SDK of its own, so that tests share nothing."""

    def __init__(self) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers, self.meters = TracerProvider(), MeterProvider([self._reader])
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.tracers.get_tracer("test")

    def hook(self) -> OpenTelemetryHook:
        return OpenTelemetryHook(tracer_provider=self.tracers, meter_provider=self.meters)

    def spans(self, name: str = "") -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name.startswith(name)]

    def span(self, name: str) -> ReadableSpan:
        (found,) = self.spans(name)
        return found

    def metrics(self) -> dict[str, list[Any]]:
        data: Any = self._reader.get_metrics_data()
        return {
            metric.name: list(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


@pytest.fixture
def broker() -> Iterator[LoopbackBroker]:
    with LoopbackBroker(virtual_time=True) as broker:
        yield broker


def consume(broker: LoopbackBroker, listener: Any, telemetry: Telemetry, **more: Any) -> int:
    wanted = {"topics": "orders", "start": "earliest", "group": "billing", "hooks": [telemetry.hook()], **more}
    count = wanted.pop("messages", 1)
    return PushConsumer(broker.nameserver, listener=listener, **wanted).run(messages=count, timeout_ms=600_000)


def ids(span: ReadableSpan) -> tuple[int, int]:
    found: Any = span.get_span_context()
    return found.trace_id, found.span_id


def parent(span: ReadableSpan) -> tuple[int, int] | None:
    return (span.parent.trace_id, span.parent.span_id) if span.parent else None


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def attributes(span: ReadableSpan) -> Attributes:
    return dict(span.attributes or {})


# --- one message ---


def test_a_message_goes_from_the_callers_span_through_send_to_process(
    telemetry: Telemetry, broker: LoopbackBroker
) -> None:
    seen: list[tuple[int, int]] = []

    def bill(message: pyromq.ReceivedMessage) -> None:
        current = trace.get_current_span().get_span_context()
        seen.append((current.trace_id, current.span_id))

    with Producer(broker.nameserver, group="shop", hooks=[telemetry.hook()]) as producer:
        with telemetry.tracer.start_as_current_span("checkout"):
            receipt = producer.send(Message("orders", b"42", tags="new", keys="order-42"))
    consume(broker, bill, telemetry)

    checkout, send, process = (
        telemetry.span("checkout"),
        telemetry.span("send orders"),
        telemetry.span("process orders"),
    )
    assert send.kind is SpanKind.PRODUCER and process.kind is SpanKind.CONSUMER
    assert parent(send) == ids(checkout)
    assert parent(process) == ids(send)
    assert linked(process) == [ids(send)]
    assert seen == [ids(process)]
    host, _, port = broker.address.rpartition(":")
    common = {
        "messaging.system": "rocketmq",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": str(receipt.queue.number),
        "messaging.message.id": receipt.message_id,
        "messaging.rocketmq.message.keys": ("order-42",),
        "messaging.rocketmq.message.tag": "new",
        "server.address": host,
        "server.port": int(port),
    }
    assert attributes(send) == {
        **common,
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.rocketmq.message.type": "normal",
    }
    assert attributes(process) == {
        **common,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": "billing",
        "messaging.rocketmq.message.delivery_attempt": 1,
    }
    assert send.status.status_code is process.status.status_code is StatusCode.UNSET


def test_context_and_baggage_travel_in_properties(telemetry: Telemetry, broker: LoopbackBroker) -> None:
    seen: list[tuple[object, Any]] = []

    def bill(message: pyromq.ReceivedMessage) -> None:
        seen.append((baggage.get_baggage("tenant"), message.get("traceparent")))

    token = context.attach(baggage.set_baggage("tenant", "blue"))
    try:
        with Producer(broker.nameserver, group="shop", hooks=[telemetry.hook()]) as producer:
            producer.send(Message("orders", b"42", properties={"currency": "EUR"}))
    finally:
        context.detach(token)
    consume(broker, bill, telemetry)
    trace_id, span_id = ids(telemetry.span("send"))
    ((tenant, traceparent),) = seen
    assert tenant == "blue"
    assert traceparent.startswith(f"00-{trace_id:032x}-{span_id:016x}-")


def test_with_asyncio_the_span_is_current_in_the_coroutine_and_in_what_it_starts(
    telemetry: Telemetry, broker: LoopbackBroker
) -> None:
    seen = []

    async def bill(message: pyromq.ReceivedMessage) -> None:
        await asyncio.sleep(0)
        with telemetry.tracer.start_as_current_span(f"charge {message.body.decode()}"):
            await asyncio.to_thread(lambda: seen.append(trace.get_current_span().get_span_context().is_valid))

    async def main() -> None:
        async with aio.Producer(broker.nameserver, group="shop", hooks=[telemetry.hook()]) as producer:
            with telemetry.tracer.start_as_current_span("checkout"):
                await asyncio.gather(
                    producer.send(Message("orders", b"1")), producer.send_nowait(Message("orders", b"2"))
                )
                await producer.send_oneway(Message("orders", b"3"))
        consumer = aio.PushConsumer(
            broker.nameserver,
            group="billing",
            topics="orders",
            listener=bill,
            start="earliest",
            hooks=[telemetry.hook()],
        )
        await consumer.run(messages=3, timeout_ms=20_000)

    asyncio.run(main())
    sends = {ids(span) for span in telemetry.spans("send")}
    assert len(sends) == 3
    assert {parent(span) for span in telemetry.spans("send")} == {ids(telemetry.span("checkout"))}
    processes = {ids(span): parent(span) for span in telemetry.spans("process")}
    assert set(processes.values()) == sends
    assert {parent(span) for span in telemetry.spans("charge")} == set(processes)
    assert seen == [True] * 3


def test_threads_do_not_mix_their_spans(telemetry: Telemetry, broker: LoopbackBroker) -> None:
    together = threading.Barrier(4, timeout=20)
    current: dict[bytes, str] = {}

    def bill(message: pyromq.ReceivedMessage) -> None:
        together.wait()  # all of them are inside at once
        found: Any = trace.get_current_span()
        current[message.body] = found.attributes["messaging.message.id"]
        together.wait()

    sent = {}
    with Producer(broker.nameserver, group="shop", hooks=[telemetry.hook()]) as producer:
        for number in range(4):
            sent[b"%d" % number] = producer.send(Message("orders", b"%d" % number)).message_id
    consume(broker, bill, telemetry, messages=4, threads=4)
    assert current == sent
    assert not trace.get_current_span().get_span_context().is_valid


# --- what goes wrong ---


def test_a_failed_delivery_is_an_error_and_the_next_one_a_span_of_its_own(
    telemetry: Telemetry, broker: LoopbackBroker
) -> None:
    def bill(message: pyromq.ReceivedMessage) -> Any:
        if message.delivery_attempt == 0:
            raise ValueError("no such customer")
        return ConsumeStatus.RETRY if message.delivery_attempt == 1 else None

    with Producer(broker.nameserver, group="shop", hooks=[telemetry.hook()]) as producer:
        producer.send(Message("orders", b"42"))
    consume(broker, bill, telemetry)
    send, (raised, again, fine) = telemetry.span("send"), telemetry.spans("process orders")
    attempt = "messaging.rocketmq.message.delivery_attempt"
    assert [attributes(span)[attempt] for span in (raised, again, fine)] == [1, 2, 3]
    assert [attributes(span).get("error.type") for span in (raised, again, fine)] == ["ValueError", "FAILED", None]
    assert {parent(span) for span in (raised, again, fine)} == {ids(send)}
    codes = [span.status.status_code for span in (raised, again, fine)]
    assert codes == [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET]
    assert raised.status.description == "ValueError: no such customer"
    (event,) = raised.events
    assert event.name == "exception" and "no such customer" in str(event.attributes)


def test_a_send_that_fails_tells_every_attempt(telemetry: Telemetry) -> None:
    with LoopbackBroker() as broker:
        producer = Producer(broker.nameserver, group="shop", hooks=[telemetry.hook()])
        producer.open()
        producer.send(Message("orders", b"1"))
    with pytest.raises(SendFailedError):
        producer.send(Message("orders", b"2"), timeout_ms=300)
    producer.close()
    _, failed = telemetry.spans("send")
    assert failed.status.status_code is StatusCode.ERROR
    assert attributes(failed)["error.type"] == "pyromq.errors.SendFailedError"
    attempts = [event for event in failed.events if event.name == "attempt failed"]
    assert attempts and attempts[0].attributes is not None
    assert attempts[0].attributes["pyromq.broker"] == "broker-a"


def test_a_context_that_finds_no_room_is_left_out(telemetry: Telemetry, broker: LoopbackBroker) -> None:
    full = Message("orders", b"42", properties={"note": "x" * 31_000})
    seen = []
    with Producer(broker.nameserver, group="shop", hooks=[telemetry.hook()]) as producer:
        producer.send(full)
    consume(broker, lambda message: seen.append(message.get("traceparent")), telemetry)
    assert seen == [None]
    assert parent(telemetry.span("process")) is None


@pytest.mark.parametrize(
    "text", ["", "no trace", "00-zz-zz-01", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "\u00e4" * 9]
)
def test_what_is_no_context_in_a_message_does_no_harm(telemetry: Telemetry, broker: LoopbackBroker, text: str) -> None:
    given = {"traceparent": text} if text else {}
    with Producer(broker.nameserver, group="elsewhere") as producer:
        producer.send(Message("orders", b"42", properties=given))
    assert consume(broker, lambda message: None, telemetry) == 1
    assert parent(telemetry.span("process")) is None


# --- batches, polls, transactions, order, delay ---


def test_a_batch_has_a_context_for_each_message_and_one_send(telemetry: Telemetry, broker: LoopbackBroker) -> None:
    with Producer(broker.nameserver, group="shop", hooks=[telemetry.hook()]) as producer:
        with telemetry.tracer.start_as_current_span("import"):
            producer.send_batch([Message("orders", b"%d" % number) for number in range(3)])
    got: list[int] = []
    consume(broker, None, telemetry, messages=3, batch_max=3, batch_listener=lambda some: got.append(len(some)))
    created, send = telemetry.spans("create orders"), telemetry.span("send orders")
    assert send.kind is SpanKind.CLIENT
    assert attributes(send)["messaging.batch.message_count"] == 3
    assert linked(send) == [ids(span) for span in created]
    assert {parent(span) for span in (*created, send)} == {ids(telemetry.span("import"))}
    processes = telemetry.spans("process")
    assert sorted(link for span in processes for link in linked(span)) == sorted(ids(span) for span in created)
    for span, count in zip(processes, got, strict=True):
        assert attributes(span).get("messaging.batch.message_count", 1) == count
        assert count == 1 or parent(span) is None


def test_a_poll_is_a_span_and_its_messages_give_their_context(telemetry: Telemetry, broker: LoopbackBroker) -> None:
    with Producer(broker.nameserver, group="shop", hooks=[telemetry.hook()]) as producer:
        producer.send(Message("orders", b"42"))
    hooks = [telemetry.hook()]
    with PullConsumer(broker.nameserver, group="audit", topics="orders", start="earliest", hooks=hooks) as consumer:
        with telemetry.tracer.start_as_current_span("audit run"):
            (message,) = consumer.poll(10_000)
        with telemetry.tracer.start_as_current_span("audit one", context=context_of(message)):
            pass
    poll, send = telemetry.span("poll orders"), telemetry.span("send")
    assert poll.kind is SpanKind.CLIENT
    assert linked(poll) == [ids(send)]
    assert parent(poll) == ids(telemetry.span("audit run"))
    assert parent(telemetry.span("audit one")) == ids(send)
    told = attributes(poll)
    assert (told["messaging.operation.type"], told["messaging.batch.message_count"]) == ("receive", 1)
    assert told["messaging.consumer.group.name"] == "audit"


def test_the_type_of_a_message_is_told(telemetry: Telemetry, broker: LoopbackBroker) -> None:
    hooks = [telemetry.hook()]
    with Producer(broker.nameserver, group="shop", hooks=hooks) as producer:
        producer.send(Message("orders", b"1", sharding_key="42"))
        producer.send(Message("orders", b"2", delay_level=1))
        producer.send(Message("orders", b"3", deliver_at_ms=1))
    with TransactionProducer(
        broker.nameserver, group="tx", topics="orders", check=lambda _: None, hooks=hooks
    ) as transactions:
        with transactions.transaction(Message("orders", b"4")):
            pass
    consume(broker, lambda message: None, telemetry, messages=4, orderly=True)
    sends = [attributes(span) for span in telemetry.spans("send")]
    kinds = [told["messaging.rocketmq.message.type"] for told in sends]
    assert kinds == ["fifo", "delay", "delay", "transaction"]
    assert sends[0]["messaging.rocketmq.message.group"] == "42"
    assert sends[1]["messaging.rocketmq.message.delay_time_level"] == 1
    assert sends[2]["messaging.rocketmq.message.delivery_timestamp"] == 1
    processes = {parent(span) for span in telemetry.spans("process")}
    assert processes == {ids(span) for span in telemetry.spans("send")}


def test_a_message_that_has_a_context_keeps_it(telemetry: Telemetry, broker: LoopbackBroker) -> None:
    with telemetry.tracer.start_as_current_span("written to the outbox"):
        message = with_context(Message("orders", b"42"))
        assert with_context(message) is message
    with Producer(broker.nameserver, group="forwarder", hooks=[telemetry.hook()]) as producer:
        producer.send(message)
    consume(broker, lambda message: None, telemetry)
    origin, send = telemetry.span("written"), telemetry.span("send")
    assert send.kind is SpanKind.CLIENT and linked(send) == [ids(origin)]
    assert parent(telemetry.span("process")) == ids(origin)


def test_without_a_current_context_a_message_stays_as_it_is() -> None:
    message = Message("orders", b"42")
    assert with_context(message) is message


def test_a_request_and_its_reply_are_one_trace(telemetry: Telemetry, broker: LoopbackBroker) -> None:
    hooks = [telemetry.hook()]
    with Producer(broker.nameserver, group="prices", hooks=hooks) as answering:

        def answer(message: pyromq.ReceivedMessage) -> None:
            answering.reply(message, b"9.99")

        consumer = PushConsumer(
            broker.nameserver, group="prices", topics="price", listener=answer, start="earliest", hooks=hooks
        )
        with consumer, Producer(broker.nameserver, group="shop", hooks=hooks) as producer:
            assert producer.request(Message("price", b"book"), timeout_ms=20_000).body == b"9.99"
    ask, process = telemetry.span("send price"), telemetry.span("process price")
    (reply,) = [span for span in telemetry.spans("send") if span is not ask]
    assert parent(process) == ids(ask)
    assert parent(reply) == ids(process)
    assert attributes(process)["messaging.message.conversation_id"]


# --- the instrumentor ---


@pytest.fixture
def instrumentor() -> Iterator[PyroMQInstrumentor]:
    instrumentor = PyroMQInstrumentor()
    yield instrumentor
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()


def test_the_instrumentor_covers_all_clients_until_it_is_undone(
    telemetry: Telemetry, broker: LoopbackBroker, instrumentor: PyroMQInstrumentor
) -> None:
    instrumentor.instrument(tracer_provider=telemetry.tracers, meter_provider=telemetry.meters)
    producer = Producer(broker.nameserver, group="shop", trace=True)
    producer.open()
    producer.send(Message("orders", b"1"))
    PushConsumer(broker.nameserver, group="billing", topics="orders", listener=print, start="earliest").run(messages=1)
    names = ["send orders", "process orders"]
    assert [span.name for span in telemetry.spans()] == names
    instrumentor.uninstrument()
    producer.send(Message("orders", b"2"))  # made before, and still open
    producer.close()  # sends its traces, which are not traced
    with Producer(broker.nameserver, group="shop") as later:
        later.send(Message("orders", b"3"))
    assert [span.name for span in telemetry.spans()] == names


def test_instrumenting_twice_does_not_make_two_spans(
    telemetry: Telemetry, broker: LoopbackBroker, instrumentor: PyroMQInstrumentor
) -> None:
    for _ in range(2):
        instrumentor.instrument(tracer_provider=telemetry.tracers)
    with Producer(broker.nameserver, group="shop") as producer:
        producer.send(Message("orders", b"1"))
    assert len(telemetry.spans()) == 1


def test_the_instrumentor_is_found_by_its_entry_point() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["entry-points"]["opentelemetry_instrumentor"]["pyromq"]
    assert EntryPoint("pyromq", declared, "opentelemetry_instrumentor").load() is PyroMQInstrumentor


def test_suppressed_instrumentation_makes_no_spans(telemetry: Telemetry, broker: LoopbackBroker) -> None:
    with Producer(broker.nameserver, group="shop", hooks=[telemetry.hook()]) as producer, suppress_instrumentation():
        producer.send(Message("orders", b"42"))
    assert telemetry.spans() == []


# --- metrics ---


def test_metrics_count_and_time_by_few_attributes(telemetry: Telemetry, broker: LoopbackBroker) -> None:
    def bill(message: pyromq.ReceivedMessage) -> None:
        if message.body == b"bad" and message.delivery_attempt == 0:
            raise ValueError

    with Producer(broker.nameserver, group="shop", hooks=[telemetry.hook()]) as producer:
        producer.send(Message("orders", b"ok", keys="order-1"))
        producer.send(Message("orders", b"bad", keys="order-2"))
    consume(broker, bill, telemetry, messages=2)
    found = telemetry.metrics()
    sent = {(each.attributes["messaging.destination.name"], each.attributes.get("error.type")): each.value
            for each in found["messaging.client.sent.messages"]}  # fmt: skip
    assert sent["orders", None] == 2
    consumed = {each.attributes.get("error.type"): each.value for each in found["messaging.client.consumed.messages"]}
    assert consumed == {None: 2, "ValueError": 1}
    assert sum(each.count for each in found["messaging.process.duration"]) == 3
    assert sum(each.count for each in found["messaging.client.operation.duration"]) == 2
    for points in found.values():
        for point in points:
            assert not {"messaging.message.id", "messaging.rocketmq.message.keys"} & set(point.attributes)


# --- nothing of this costs a message ---


class Broken(SpanProcessor):
    """Of the kind that people write: it fails at the beginning, or at the end."""

    def __init__(self, when: str) -> None:
        self.when = when

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if self.when == "start":
            raise RuntimeError("a processor failed")

    def on_end(self, span: ReadableSpan) -> None:
        if self.when == "end":
            raise RuntimeError("a processor failed")


@pytest.mark.parametrize("when", ["start", "end"])
@pytest.mark.parametrize("orderly", [False, True])
def test_a_failing_telemetry_costs_no_message(
    broker: LoopbackBroker, when: str, orderly: bool, caplog: pytest.LogCaptureFixture
) -> None:
    provider = TracerProvider()
    provider.add_span_processor(Broken(when))
    hooks = [OpenTelemetryHook(tracer_provider=provider)]
    with Producer(broker.nameserver, group="shop", hooks=hooks) as producer:
        receipt = producer.send(Message("orders", b"1"))
        receipts = producer.send_batch([Message("orders", b"2"), Message("orders", b"3")])
    assert receipt.message_id and len(receipts) == 2
    seen: list[bytes] = []
    consumer = PushConsumer(
        broker.nameserver,
        group="billing",
        topics="orders",
        listener=lambda message: seen.append(message.body),
        start="earliest",
        hooks=hooks,
        orderly=orderly,
    )
    assert consumer.run(messages=3, timeout_ms=600_000) == 3
    assert sorted(seen) == [b"1", b"2", b"3"]
    assert consumer.counts.failed == 0
    assert "a processor failed" in caplog.text


def test_a_hook_of_both_kinds_given_and_installed_makes_one_span(telemetry: Telemetry, broker: LoopbackBroker) -> None:
    hook = telemetry.hook()
    install(hook)
    try:
        with Producer(broker.nameserver, group="shop", hooks=[hook]) as producer:
            producer.send(Message("orders", b"1"))
    finally:
        uninstall(hook)
    assert len(telemetry.spans()) == 1
