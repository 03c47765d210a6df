"""Replays: real messages through a handler, as often as one likes; nothing on the brokers changes by it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict, TypeVar, Unpack

from pyromq.client.core.options import ClientOptions
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.sync.loop_thread import loop_thread
from pyromq.clock import SystemClock
from pyromq.errors import NotFoundError
from pyromq.lab.handlers import ReplayHandler
from pyromq.lab.moments import Moment
from pyromq.lab.outcomes import ReplayOutcome, attempt, attempt_coroutine, outcome_of
from pyromq.lab.reports import ReplayReport
from pyromq.lab.selection import LIMIT, MessageSelection
from pyromq.model.queue import QueueId
from pyromq.operate.admin import Admin
from pyromq.operate.explaining.group_story import GroupStory

T = TypeVar("T")
Read = tuple[ReceivedMessage, tuple[GroupStory, ...]]


class Choice(TypedDict, total=False):
    """Which messages: by ``key``, ``message_id``, ``queue`` and ``offsets``, or ``dead_letters`` of a group.

    ``since`` and ``until`` limit the time at which they were stored: ``"2h ago"``, a datetime with time zone, a
    timedelta, milliseconds since 1970.
    """

    key: str
    message_id: str
    queue: QueueId
    offsets: tuple[int, int]
    dead_letters: str
    since: Moment | None
    until: Moment | None


class Replay:
    """Which messages, from which cluster; ``run`` reads them anew each time. ``replay`` makes one."""

    def __init__(
        self, selection: MessageSelection, *, group: str, nameserver: str | Sequence[str], options: ClientOptions
    ) -> None:
        self.selection = selection
        self.group = group
        self._nameserver = nameserver
        self._options = options

    @property
    def what(self) -> str:
        """Description of the replay in words."""
        selection = self.selection
        parts = [
            f"{name}={value!r}" for name in ("key", "message_id", "offsets") if (value := getattr(selection, name))
        ]
        parts += [f"dead letters of {selection.dead_letters}"] if selection.dead_letters else []
        return " ".join([selection.topic or "any topic", *(f"({each})" for each in parts)])

    # --- for the user ---

    def messages(self) -> list[ReceivedMessage]:
        """The messages alone. Raises as ``run``."""
        return [message for message, _ in _on_client_loop(self._read())[0]]

    def run(self, handler: Callable[..., Any], /, **given: Any) -> ReplayReport:
        """Calls the handler with every message, one after the other: a function here, a coroutine on a loop of its own.

        ``given`` are the handler's further parameters. What the handler raises is part of its outcome.
        Raises ConfigError, NotFoundError, TopicNotFoundError, and what connecting raises.
        """
        prepared = ReplayHandler(handler, given)
        read, is_cut = _on_client_loop(self._read())
        return self._report(prepared, _called(prepared, read), is_cut=is_cut)

    async def run_async(self, handler: Callable[..., Any], /, **given: Any) -> ReplayReport:
        """``run`` on the running loop: coroutines are awaited there, functions are called on a thread."""
        prepared = ReplayHandler(handler, given)
        read, is_cut = await self._read()
        return self._report(prepared, await _awaited(prepared, read), is_cut=is_cut)

    # --- for reports ---

    def again(self, replayed: ReplayReport, handler: Callable[..., Any], given: dict[str, Any]) -> ReplayReport:
        """Run another handler over messages that were read before, without reading them again."""
        prepared = ReplayHandler(handler, given)
        return self._report(prepared, _called(prepared, _read_before(replayed)), is_cut=replayed.is_cut)

    async def again_async(
        self, replayed: ReplayReport, handler: Callable[..., Any], given: dict[str, Any]
    ) -> ReplayReport:
        prepared = ReplayHandler(handler, given)
        return self._report(prepared, await _awaited(prepared, _read_before(replayed)), is_cut=replayed.is_cut)

    def _report(self, handler: ReplayHandler, outcomes: list[ReplayOutcome], *, is_cut: bool) -> ReplayReport:
        return ReplayReport(outcomes, handler=handler.name, replay=self, is_cut=is_cut)

    async def _read(self) -> tuple[list[Read], bool]:
        async with Admin(self._nameserver, **self._options) as admin:
            messages, is_cut = await self.selection.read(admin)
            return [(message, await self._recorded(admin, message)) for message in messages], is_cut

    async def _recorded(self, admin: Admin, message: ReceivedMessage) -> tuple[GroupStory, ...]:
        try:
            explanation = await admin.messages.explain(message.topic, message.message_id)
        except NotFoundError:  # it has no id that it can be found by
            return ()
        return tuple(story for story in explanation.groups if not self.group or story.group == self.group)


def replay(
    topic: str = "",
    *,
    group: str = "",
    limit: int = LIMIT,
    nameserver: str | Sequence[str] = (),
    client: ClientOptions | None = None,
    **choice: Unpack[Choice],
) -> Replay:
    """Messages of a topic to try a listener with: ``replay("orders", key="42", since="2h ago").run(bill)``.

    ``choice`` says which messages: ``Choice`` has the words. ``group`` limits what is shown beside the outcomes to one
    group; with ``dead_letters`` it is that of the letters. At most ``limit`` messages are read, the oldest first, and
    the report says when there are more. ``nameserver`` and ``client`` (credentials, tls, …) are as for every client.

    Nothing is acknowledged, no offset moves, no member joins a group. Raises ConfigError.
    """
    selection = MessageSelection(topic=topic, limit=limit, **choice)
    group = group or selection.dead_letters
    return Replay(selection, group=group, nameserver=nameserver, options=client or {})


def _read_before(replayed: ReplayReport) -> list[Read]:
    return [(outcome.message, outcome.recorded) for outcome in replayed]


def _called(handler: ReplayHandler, read: list[Read]) -> list[ReplayOutcome]:
    if handler.is_coroutine:
        return _in_own_loop(_awaited(handler, read))
    outcomes = []
    for message, recorded in read:
        began_s = SystemClock.monotonic_s()
        result, error = attempt(lambda message=message: handler.call(message))  # type: ignore[misc]
        elapsed_s = SystemClock.monotonic_s() - began_s
        outcomes.append(outcome_of(message, result, error, elapsed_s=elapsed_s, recorded=recorded))
    return outcomes


async def _awaited(handler: ReplayHandler, read: list[Read]) -> list[ReplayOutcome]:
    outcomes = []
    for message, recorded in read:
        call = lambda message=message: handler.call(message)  # noqa: E731
        began_s = SystemClock.monotonic_s()
        if handler.is_coroutine:
            result, error = await attempt_coroutine(call)
        else:
            result, error = await asyncio.to_thread(attempt, call)
        elapsed_s = SystemClock.monotonic_s() - began_s
        outcomes.append(outcome_of(message, result, error, elapsed_s=elapsed_s, recorded=recorded))
    return outcomes


def _on_client_loop(work: Coroutine[Any, Any, T]) -> T:
    """Where sync clients live."""
    thread = loop_thread()
    thread.acquire()
    try:
        return thread.call(work)
    finally:
        thread.release()


def _in_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Here, or, where a loop runs already as in a notebook, on another thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, thread_name_prefix="pyromq-replay") as pool:
        return pool.submit(asyncio.run, work).result()
