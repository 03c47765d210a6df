"""Store check: a read-only look at a store in RocketMQ's format: what is damaged, and what opening would do about it.

For the command line. Imports every room of the store but ``timers`` and ``tables``; no room imports this one.
"""

from pyromq.store.check.check_store import check_store
from pyromq.store.check.report import CheckReport, StoreFinding, StoreSeverity, StoreVerdict

__all__ = ["CheckReport", "StoreFinding", "StoreSeverity", "StoreVerdict", "check_store"]
