"""Whether a broker is ready, and what is wrong with it."""

from __future__ import annotations

from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.wiring import Parts
from pyromq.metrics.health import Finding, HealthReport, Severity, broker_findings
from pyromq.model.topic import Perm


def serving_health(parts: Parts, settings: BrokerSettings) -> HealthReport:
    """Health of a broker that answers requests."""
    reasons, findings = [], []
    store, pressure, registrar = parts.write_path.store, parts.write_path.pressure, parts.services.registrar
    if not store.health.writable:
        reasons.append(str(store.health.error()))
    if pressure.is_stuck:
        stuck_ms = pressure.stuck_ms()
        reasons.append(f"flow control: sends are refused, one flush of the disk has taken {stuck_ms} ms so far")
    elif pressure.is_busy:
        text = f"flow control: {pressure.waiting_for_disk} sends wait for the disk, the next ones wait for these"
        findings.append(Finding(Severity.WARNING, text))
    if settings.nameservers and not registrar.registered_with:
        names = ", ".join(settings.nameservers)
        reasons.append(f"not registered with any name server, so no client finds it: {names}")
    if settings.permission & (Perm.READ | Perm.WRITE) != Perm.READ | Perm.WRITE:
        text = f"clients may not send and read, its setting permission (brokerPermission) is {settings.permission}"
        findings.append(Finding(Severity.WARNING, text))
    found = [each for each in broker_findings(parts.handlers.runtime.facts()) if each.text not in reasons]
    return HealthReport(tuple(reasons), (*findings, *found))
