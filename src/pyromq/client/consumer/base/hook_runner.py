"""Hooks of a consumer, around its listener calls. What they raise is logged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from pyromq.client.consumer.base.listeners import Listener
from pyromq.client.consumer.rules.orderly_outcome import OrderlyResult, OrderlyStatus
from pyromq.client.consumer.rules.outcome import BatchResult, ConsumeStatus
from pyromq.client.core.hooks import ConsumeHook, Delivery, within
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.clock import Clock
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

    def wrap(self, listener: Listener, group: str, clock: Clock) -> None:
        """Calls of the listener happen inside of ``listening`` of the hooks; one that no hook wraps stays as it is."""
        scopes = [hook.listening for hook in self._hooks if type(hook).listening is not ConsumeHook.listening]
        if not scopes:
            return
        function, takes_one = listener.function, listener.takes_one

        @contextmanager
        def around(batch: list[ReceivedMessage]) -> Iterator[Callable[[object], None]]:
            delivery, began_s = Delivery(batch, group), clock.monotonic_s()

            def over(result: object) -> None:
                spent_ms = int((clock.monotonic_s() - began_s) * 1000)
                delivery.code = consume_code(result, raised=False, spent_ms=spent_ms, timeout_ms=self._timeout_ms())

            with within(partial(scope, delivery) for scope in scopes):
                try:
                    yield over
                except BaseException:  # what the listener raised; raised again
                    delivery.code = ConsumeCode.EXCEPTION
                    raise

        def call(batch: list[ReceivedMessage]) -> Any:
            with around(batch) as over:
                result = function(batch[0] if takes_one else batch)
                over(result)
            return result

        async def call_coroutine(batch: list[ReceivedMessage]) -> Any:
            with around(batch) as over:
                result = await function(batch[0] if takes_one else batch)
                over(result)
            return result

        listener.wrap(call_coroutine if listener.is_coroutine else call)

    @property
    def masks(self) -> tuple[Callable[[str], str], ...]:
        """What hooks do to the text of an error; those that leave it as it is are left out."""
        return tuple(hook.mask_error for hook in self._hooks if type(hook).mask_error is not ConsumeHook.mask_error)

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
