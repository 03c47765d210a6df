"""What a running consumer reports about itself: ``PushConsumer.counts``, ``flow_counts`` and ``heads``."""

from __future__ import annotations

from pyromq.client.consumer.base.consume_stats import Totals
from pyromq.client.consumer.base.running_info import HeadOfLine
from pyromq.client.consumer.rules.flow_control import Hold

__all__ = [
    "HeadOfLine",
    "Hold",
    "Totals",
]
