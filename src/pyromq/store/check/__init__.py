"""A read-only look at any RocketMQ-format store: what is damaged, and what opening it would do about that."""

from pyromq.store.check.check_store import check_store
from pyromq.store.check.report import CheckReport, StoreFinding, StoreSeverity, StoreVerdict

__all__ = ["CheckReport", "StoreFinding", "StoreSeverity", "StoreVerdict", "check_store"]
