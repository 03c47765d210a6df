"""Settings objects, for what is not a keyword argument, and the types of the arguments.

    quick = PushConsumerSettings(persist_ms=500, rebalance_ms=1_000)
    PushConsumer("127.0.0.1:9876", group="billing", listener=bill, topics="orders", threads=8, settings=quick)

Settings are frozen, so several clients may share them. A keyword argument wins over the settings beside it. What cannot
work is refused with ConfigError when the object is made.
"""

from __future__ import annotations

from pyromq.client.consumer.base.listeners import BatchListener, MessageListener
from pyromq.client.consumer.base.settings import (
    PullConsumerOptions,
    PullConsumerSettings,
    PushConsumerOptions,
    PushConsumerSettings,
    SimpleConsumerOptions,
    SimpleConsumerSettings,
    Start,
)
from pyromq.client.consumer.group_member import Topics
from pyromq.client.consumer.rules.assign import (
    Assign,
    assign_by_hash,
    assign_evenly,
    assign_in_circle,
    assigning_by_room,
    assigning_fixed,
    assigning_nearby,
)
from pyromq.client.consumer.rules.flow_control import FlowLimits
from pyromq.client.core.broker_health import LatencyTable
from pyromq.client.core.options import ClientOptions, SendOptions, TransactionOptions
from pyromq.client.core.settings import (
    ClientSettings,
    Compression,
    Credentials,
    ProducerSettings,
    TransactionProducerSettings,
)
from pyromq.net import Backoff, ConnectionSettings, TlsSettings

__all__ = [
    "Assign",
    "Backoff",
    "BatchListener",
    "ClientOptions",
    "ClientSettings",
    "Compression",
    "ConnectionSettings",
    "Credentials",
    "FlowLimits",
    "LatencyTable",
    "MessageListener",
    "ProducerSettings",
    "PullConsumerOptions",
    "PullConsumerSettings",
    "PushConsumerOptions",
    "PushConsumerSettings",
    "SendOptions",
    "SimpleConsumerOptions",
    "SimpleConsumerSettings",
    "Start",
    "TlsSettings",
    "Topics",
    "TransactionOptions",
    "TransactionProducerSettings",
    "assign_by_hash",
    "assign_evenly",
    "assign_in_circle",
    "assigning_by_room",
    "assigning_fixed",
    "assigning_nearby",
]
