"""Kombu's messages as bodies of ours: what was put into one, and when a task is due."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from kombu.utils.json import loads

from pyromq.client.core.received_message import ReceivedMessage


def payload_of(message: ReceivedMessage, now_ms: int) -> dict[str, Any] | None:
    """What Kombu put into a message, without an ETA that is over: the worker has nothing to wait for."""
    try:
        payload = loads(message.body)
    except (ValueError, json.JSONDecodeError, UnicodeDecodeError):
        return None
    if not isinstance(payload, dict) or not isinstance(payload.get("properties"), dict):
        return None
    headers = payload.get("headers")
    if isinstance(headers, dict) and headers.get("eta"):
        if 0 < due_ms_of(headers["eta"]) <= now_ms:
            headers["eta"] = None
    return payload


def due_ms_of(eta: object) -> int:
    """When a task is due; 0 for one without a time, or with one that Celery itself has to make sense of."""
    if not eta:
        return 0
    try:
        moment = eta if isinstance(eta, datetime) else datetime.fromisoformat(str(eta))
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, int(moment.timestamp() * 1000))
