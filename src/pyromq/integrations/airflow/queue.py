"""The provider that Airflow's common messaging asks: ``MessageQueueTrigger(scheme="pyromq", …)``."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.messaging.providers.base_provider import BaseMessageQueueProvider

from pyromq.integrations.airflow.trigger import PyroMQTrigger


class PyroMQMessageQueueProvider(BaseMessageQueueProvider):  # type: ignore[misc]
    """Arguments of the trigger are those of ``PyroMQTrigger``."""

    scheme = "pyromq"

    def scheme_matches(self, scheme: str) -> bool:
        """The scheme is ``pyromq``, also for brokers of Apache RocketMQ."""
        return scheme == self.scheme

    def queue_matches(self, queue: str) -> bool:
        """Addresses of queues are Airflow's old way; there is none for PyroMQ."""
        return False

    def trigger_class(self) -> type[Any]:
        return PyroMQTrigger

    def trigger_kwargs(self, queue: str, **kwargs: Any) -> dict[str, Any]:
        """Return nothing more: ``queue_matches`` says no."""
        return {}
