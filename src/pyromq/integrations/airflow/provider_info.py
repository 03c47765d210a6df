"""What Airflow reads of this provider, by the entry point ``apache_airflow_provider``."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """In the form of Airflow's provider_info.schema.json."""
    return {
        "package-name": "pyromq",
        "name": "PyroMQ",
        "description": "Messages of PyroMQ and Apache RocketMQ start DAG runs.",
        "integrations": [
            {"integration-name": "PyroMQ", "external-doc-url": "https://rocketmq.apache.org/", "tags": ["software"]}
        ],
        "triggers": [{"integration-name": "PyroMQ", "python-modules": ["pyromq.integrations.airflow.trigger"]}],
        "queues": ["pyromq.integrations.airflow.queue.PyroMQMessageQueueProvider"],
    }
