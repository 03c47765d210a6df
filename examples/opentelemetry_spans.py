"""One trace from the shop to billing: OpenTelemetry's spans, with the context in the message.

python examples/opentelemetry_spans.py [NAMESERVER]      needs pip install 'pyromq[opentelemetry]' opentelemetry-sdk
"""

import sys

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pyromq import Message, Producer, PushConsumer
from pyromq.integrations.opentelemetry import PyroMQInstrumentor
from pyromq.testing import LoopbackBroker

exporter = InMemorySpanExporter()  # yours sends them to a collector
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("shop")
PyroMQInstrumentor().instrument(tracer_provider=provider)


def bill(message):
    with tracer.start_as_current_span("charge the card"):
        print("charged")


def main(nameserver: str) -> None:
    with Producer(nameserver, group="shop") as producer, tracer.start_as_current_span("checkout"):
        producer.send(Message("orders", b"42", keys="order-42"))
    PushConsumer(nameserver, group="billing", topics="orders", listener=bill, start="earliest").run(messages=1)
    spans = {span.context.span_id: span for span in exporter.get_finished_spans()}
    for span in sorted(spans.values(), key=lambda span: span.start_time)[1:]:
        print(span.name, "<-", spans[span.parent.span_id].name)
    print("traces:", len({span.context.trace_id for span in spans.values()}))


if __name__ == "__main__":
    with LoopbackBroker() as broker:
        main(*(sys.argv[1:] or [broker.nameserver]))
