"""OpenTelemetry: spans and metrics of sends, polls and listener calls, by the messaging conventions.

    PyroMQInstrumentor().instrument()                     # every client made afterwards; or opentelemetry-instrument
    Producer(…, hooks=[OpenTelemetryHook()])              # one client

The context travels in the properties of a message (``traceparent``, ``tracestate``, ``baggage``), the names that
instrumentations of other RocketMQ clients use. Needs ``pip install 'pyromq[opentelemetry]'``; without a configured SDK
OpenTelemetry records nothing, and the hooks cost little.
"""

from __future__ import annotations

try:
    import opentelemetry.trace as _installed  # noqa: F401
except ImportError as error:
    raise ImportError(
        "OpenTelemetry is not installed: pip install 'pyromq[opentelemetry]'", name="opentelemetry"
    ) from error

from pyromq.integrations.opentelemetry.hook import OpenTelemetryHook
from pyromq.integrations.opentelemetry.propagation import context_of, with_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyromq.integrations.opentelemetry.instrumentor import PyroMQInstrumentor

__all__ = ["OpenTelemetryHook", "PyroMQInstrumentor", "context_of", "with_context"]


def __getattr__(name: str) -> object:
    """The instrumentor needs one package more than the hook."""
    if name != "PyroMQInstrumentor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from pyromq.integrations.opentelemetry.instrumentor import PyroMQInstrumentor
    except ImportError as error:
        raise ImportError(
            "PyroMQInstrumentor needs opentelemetry-instrumentation: pip install 'pyromq[opentelemetry]'; "
            "hooks=[OpenTelemetryHook()] does without",
            name="opentelemetry.instrumentation",
        ) from error
    return PyroMQInstrumentor
