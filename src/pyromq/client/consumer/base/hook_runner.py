"""Hooks of a consumer, around its listener calls. They are called on the loop; what they raise is logged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from pyromq.client.consumer.rules.orderly_outcome import OrderlyResult, OrderlyStatus
from pyromq.client.consumer.rules.outcome import BatchResult, ConsumeStatus
from pyromq.client.core.hooks import ConsumeHook
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.wire.trace import ConsumeCode

logger = logging.getLogger(__name__)

_SUCCESSES = (None, ConsumeStatus.SUCCESS, OrderlyStatus.SUCCESS, OrderlyStatus.COMMIT)


def consume_code(result: object, *, raised: bool, spent_ms: int, timeout_ms: int) -> ConsumeCode:
    """How a listener ended. Returning nothing is success here, so RETURN_NULL is for others to use."""
    if raised:
        return ConsumeCode.EXCEPTION
    if spent_ms >= timeout_ms:
        return ConsumeCode.TIME_OUT
    status = result.status if isinstance(result, BatchResult | OrderlyResult) else result
    return ConsumeCode.SUCCESS if status in _SUCCESSES else ConsumeCode.FAILED


class HookRunner:
    """``began(batch)`` before a listener gets it, ``ended`` with the same batch after; false when there is no hook."""

    def __init__(self, hooks: Sequence[ConsumeHook], timeout_ms: Callable[[], int]) -> None:
        self._hooks = tuple(hooks)
        self._timeout_ms = timeout_ms
        self._notes: dict[int, list[object]] = {}  # of batches with listeners, by identity: what hooks want back

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def began(self, batch: list[ReceivedMessage]) -> None:
        self._notes[id(batch)] = [_quietly(hook.before_consume, batch) for hook in self._hooks]

    def ended(self, batch: list[ReceivedMessage], result: object, error: Exception | None, seconds: float) -> None:
        spent_ms = int(seconds * 1000)
        code = consume_code(result, raised=error is not None, spent_ms=spent_ms, timeout_ms=self._timeout_ms())
        for hook, note in zip(self._hooks, self._notes.pop(id(batch)), strict=True):
            _quietly(hook.after_consume, batch, note, code, spent_ms)


def _quietly(call: Callable[..., Any], *arguments: object) -> Any:
    try:
        return call(*arguments)
    except Exception:  # a hook's mistake must not cost a message
        logger.exception("consume hook failed, going on without it")
        return None
