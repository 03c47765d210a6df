"""A broker whose delay levels pass at once, so that retries do."""

from __future__ import annotations

from dataclasses import replace

from pyromq.broker.base.settings import BrokerSettings
from pyromq.testing.loopback import SMALL_FILES

QUICK_DELAYS = BrokerSettings(store=replace(SMALL_FILES, delay_ladder_ms=(20,) * 18))
