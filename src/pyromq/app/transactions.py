"""Transactions of an app: one block for coroutines and for functions on threads."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any

from pyromq.client.core.transaction import Transaction

if TYPE_CHECKING:
    from pyromq.app.run import Run


class AppTransaction:
    """``async with app.transaction(…) as transaction``, or ``with``; see ``TransactionProducer.transaction``."""

    def __init__(self, run: Run, topic: str, value: Any, how: dict[str, Any]) -> None:
        self._run = run
        self._topic, self._value, self._how = topic, value, how
        self._block: AbstractContextManager[Transaction] | None = None
        self._async_block: AbstractAsyncContextManager[Transaction] | None = None

    def __enter__(self) -> Transaction:
        self._block = self._run.sync_transactions.transaction(self._topic, self._value, **self._how)
        return self._block.__enter__()

    def __exit__(self, *exc_info: object) -> bool | None:
        assert self._block is not None
        return self._block.__exit__(*exc_info)  # type: ignore[arg-type]

    async def __aenter__(self) -> Transaction:
        self._async_block = self._run.transactions.transaction(self._topic, self._value, **self._how)
        return await self._async_block.__aenter__()

    async def __aexit__(self, *exc_info: object) -> bool | None:
        assert self._async_block is not None
        return await self._async_block.__aexit__(*exc_info)  # type: ignore[arg-type]
