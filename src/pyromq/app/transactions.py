"""Transactions of an app: one block for coroutines and for functions on threads."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING

from pyromq.client.core.transaction import Transaction
from pyromq.model.message import Message

if TYPE_CHECKING:
    from pyromq.app.run import Run


class AppTransaction:
    """``async with app.transaction(…) as transaction``, or ``with``; see ``TransactionProducer.transaction``."""

    def __init__(self, run: Run, message: Message, check_after_ms: int) -> None:
        self._run = run
        self._message = message
        self._check_after_ms = check_after_ms
        self._block: AbstractContextManager[Transaction] | None = None
        self._async_block: AbstractAsyncContextManager[Transaction] | None = None

    def __enter__(self) -> Transaction:
        self._block = self._run.sync_transactions.transaction(self._message, check_after_ms=self._check_after_ms)
        return self._block.__enter__()

    def __exit__(self, *exc_info: object) -> bool | None:
        assert self._block is not None
        return self._block.__exit__(*exc_info)  # type: ignore[arg-type]

    async def __aenter__(self) -> Transaction:
        self._async_block = self._run.transactions.transaction(self._message, check_after_ms=self._check_after_ms)
        return await self._async_block.__aenter__()

    async def __aexit__(self, *exc_info: object) -> bool | None:
        assert self._async_block is not None
        return await self._async_block.__aexit__(*exc_info)  # type: ignore[arg-type]
