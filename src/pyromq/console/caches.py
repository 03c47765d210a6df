"""Values that are kept for a moment: many visitors, one question to the cluster.

While a value is being loaded, all who want it wait for the same load. A failed load is not kept.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar

from pyromq.clock import Clock

T = TypeVar("T")
_ENTRIES_MAX: Final = 5_000


class Cache:
    """At most ``_ENTRIES_MAX`` values, those that were loaded longest ago leave first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._values: OrderedDict[Hashable, tuple[int, Any]] = OrderedDict()
        self._loading: dict[Hashable, asyncio.Task[Any]] = {}

    async def get(self, key: Hashable, age_ms_max: int, load: Callable[[], Awaitable[T]]) -> T:
        """A value that is not older than that; raises what loading it raises."""
        found = self._values.get(key)
        if found is not None and self._clock.monotonic_ms() - found[0] < age_ms_max:
            return found[1]  # type: ignore[no-any-return]
        return await asyncio.shield(self._begun(key, load))

    async def get_soon(
        self, key: Hashable, age_ms_max: int, load: Callable[[], Awaitable[T]], *, wait_s: float
    ) -> T | None:
        """Wait ``wait_s`` for a fresh value, then return what was known before, however old, or None; loading
        goes on.
        """
        found = self._values.get(key)
        if found is not None and self._clock.monotonic_ms() - found[0] < age_ms_max:
            return found[1]  # type: ignore[no-any-return]
        task = self._begun(key, load)
        await asyncio.wait([task], timeout=wait_s)
        if task.done():
            return task.result()
        return None if found is None else found[1]

    def _begun(self, key: Hashable, load: Callable[[], Awaitable[T]]) -> asyncio.Task[T]:
        """The load that is under way; it goes on when who waits for it gives up."""
        task = self._loading.get(key)
        if task is None:
            task = self._loading[key] = asyncio.ensure_future(self._load(key, load))
            task.add_done_callback(lambda done: self._over(key, done))
        return task

    async def _load(self, key: Hashable, load: Callable[[], Awaitable[T]]) -> T:
        began_ms = self._clock.monotonic_ms()
        value = await load()
        if self._loading.get(key) is not asyncio.current_task():
            return value  # forgotten meanwhile: it was true when it was asked for
        self._values.pop(key, None)
        self._values[key] = (began_ms, value)
        while len(self._values) > _ENTRIES_MAX:
            self._values.popitem(last=False)
        return value

    def _over(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        if self._loading.get(key) is task:
            del self._loading[key]
        if not task.cancelled():
            task.exception()  # it was raised to those who waited, if any is left

    def forget(self, *keys: Hashable) -> None:
        """After a change; a load that is under way is not what those who come now wait for."""
        for key in keys:
            self._values.pop(key, None)
            self._loading.pop(key, None)

    def forget_all(self) -> None:
        self._values.clear()
        self._loading.clear()

    async def close(self) -> None:
        tasks = list(self._loading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
