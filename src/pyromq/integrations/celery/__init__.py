"""Kombu's transport, and with it Celery's: ``broker_url = "pyromq://127.0.0.1:9876//"``.

    app = Celery("shop", broker="pyromq://127.0.0.1:9876//")
    app.conf.broker_transport = "pyromq.integrations.celery:Transport"   # or: import pyromq.integrations.celery

    Celery                          RocketMQ
    queue                           topic of the same name, consumed by the group ``celery-<queue>``
    acknowledge                     per message (``integrations.acknowledging``)
    countdown, eta, retry           the message waits at the broker and arrives when it is due, not before
    reject                          dead letter: %DLQ%celery-<queue>
    reject, requeue=True            send-back: comes again a second later; too often: dead letter
    fanout, remote control, events  a topic for each exchange, which listeners read from now on

Tables of exchanges and bindings are those of a connection, as in most of Kombu's transports: a producer that publishes
to an exchange by name declares the queues that are bound to it, as Celery does.
"""

from __future__ import annotations

try:
    from kombu.transport import TRANSPORT_ALIASES
except ImportError as error:
    raise ImportError("pyromq.integrations.celery needs Kombu: pip install 'pyromq[celery]'") from error

from pyromq.integrations.celery.transport import Transport

TRANSPORT_ALIASES["pyromq"] = "pyromq.integrations.celery:Transport"

__all__ = ["Transport"]
