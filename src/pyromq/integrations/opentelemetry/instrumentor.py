"""The instrumentor: what ``opentelemetry-instrument`` finds by its entry point, or a program calls itself."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]

from pyromq.hooks import install, uninstall
from pyromq.integrations.opentelemetry.hook import OpenTelemetryHook


class PyroMQInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """``PyroMQInstrumentor().instrument(tracer_provider=…, meter_provider=…)``: all clients that are made afterwards.

    ``uninstrument()`` ends it, also for those that are open.
    """

    _hook: OpenTelemetryHook | None = None

    def instrumentation_dependencies(self) -> Collection[str]:
        """What must be installed: this package itself, in any version, for it brings the instrumentor along."""
        return ("pyromq >= 0.0.0.dev0",)

    def _instrument(self, **given: Any) -> None:
        self._hook = OpenTelemetryHook(
            tracer_provider=given.get("tracer_provider"), meter_provider=given.get("meter_provider")
        )
        install(self._hook)

    def _uninstrument(self, **given: Any) -> None:
        if self._hook is not None:
            uninstall(self._hook)
            self._hook.is_active = False
            self._hook = None
