"""A read-only look at any RocketMQ-format store: what is damaged, and what opening it would do about that."""

from pyromq.store.check.check_store import check_store
from pyromq.store.check.report import CheckReport, Finding, Severity, Verdict

__all__ = ["CheckReport", "Finding", "Severity", "Verdict", "check_store"]
