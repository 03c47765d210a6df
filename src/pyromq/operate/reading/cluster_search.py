"""Cluster search: one text, looked for among messages, topics, groups, clients and users.

    names         topics, groups, clients and users that contain the text, the whole name first
    offset id     leads to its message
    id, key       the index of each topic is asked for exactly this id or key, because brokers keep an index by topic

The last two ask one topic after the other, so they are bounded: by topics, and by time. What was searched and what was
not is said in ``searched`` and ``skipped``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, Generic, TypeVar

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import ConfigError, MQError, NotFoundError
from pyromq.model.system_names import is_system_group
from pyromq.operate.access import AccessFacet
from pyromq.operate.consumers.members import MemberFacet
from pyromq.operate.lists import ClusterLists
from pyromq.operate.reading.stored_messages import StoredMessages
from pyromq.operate.subjects import Subject, SubjectKind
from pyromq.operate.sweep import ClusterSweep
from pyromq.wire.message_id import MalformedMessageIdError
from pyromq.wording import counted, shown_time

T = TypeVar("T")

TEXT_MAX: Final = 255
HITS_MAX: Final = 20  # of each kind
TOPICS_MAX: Final = 1_000  # whose index is asked for a key
GROUPS_MAX: Final = 500  # whose members are asked for
_AT_ONCE: Final = 16
TIME_S_MAX: Final = 4.0  # for one kind
_SWEEP_MS: Final = 5_000
_CLIENT_CHARACTERS_MIN: Final = 3
_ID_CHARACTERS: Final = 32


class ClusterHit(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was found: what it is, its name for people, and a line about it."""

    subject: Subject
    title: str
    text: str = ""


class FoundInCluster(msgspec.Struct, frozen=True, kw_only=True):
    """What a text leads to, messages first; ``skipped`` says in sentences what was not looked at."""

    text: str
    hits: tuple[ClusterHit, ...]
    searched: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    def of(self, kind: SubjectKind) -> list[ClusterHit]:
        """Return the hits of one kind."""
        return [hit for hit in self.hits if hit.subject.kind is kind]


class SearchFacet:
    """``admin.search``: one text, everywhere."""

    def __init__(
        self,
        requests: AdminRequests,
        lists: ClusterLists,
        stored: StoredMessages,
        members: MemberFacet,
        access: AccessFacet,
    ) -> None:
        self._requests = requests
        self._client = requests.client
        self._lists = lists
        self._stored = stored
        self._members = members
        self._access = access

    async def find(self, text: str, *, names_only: bool = False) -> FoundInCluster:
        """Look for a text in the whole cluster; with ``names_only`` among topics and groups alone, which is quick.

        Raises ConfigError for a text that is empty or too long, TransportError if no broker answers.
        """
        text = text.strip()
        if not 0 < len(text) <= TEXT_MAX:
            raise ConfigError(f"a search needs a text of 1 to {TEXT_MAX} characters")
        sweep = await self._lists.sweeper.read(max_age_ms=_SWEEP_MS)
        looks = [self._in_names(text, sweep)]
        if not names_only:
            looks = [self._in_messages(text, sweep), *looks, self._in_clients(text, sweep), self._in_users(text)]
        found = await asyncio.gather(*looks)
        return FoundInCluster(
            text=text,
            hits=tuple(hit for each in found for hit in each.hits),
            searched=tuple(line for each in found for line in each.searched),
            skipped=tuple(line for each in found for line in each.skipped),
        )

    # --- names ---

    async def _in_names(self, text: str, sweep: ClusterSweep) -> _Found:
        found = _Found()
        for kind, known in ((SubjectKind.TOPIC, await self._topics()), (SubjectKind.GROUP, self._groups(sweep))):
            chosen = matching(text, known)
            found.hits += [ClusterHit(subject=Subject(kind=kind, name=name), title=name) for name in chosen[:HITS_MAX]]
            found.searched.append(f"names of {counted(len(known), kind.value)}")
            if len(chosen) > HITS_MAX:
                found.skipped.append(f"{len(chosen) - HITS_MAX} more {kind.value}s contain the text: write more of it")
        found.skipped += sweep.problems
        return found

    async def _topics(self) -> list[str]:
        """Names of the topics of applications."""
        return sorted(name for name, kind in (await self._lists.kinds()).items() if kind.is_users)

    def _groups(self, sweep: ClusterSweep) -> list[str]:
        """Names of the groups of applications."""
        return sorted(plain for name in sweep.groups if not is_system_group(plain := self._client.plain_name(name)))

    # --- messages ---

    async def _in_messages(self, text: str, sweep: ClusterSweep) -> _Found:
        found = _Found()
        try:
            message = await self._by_offset_id(text)
        except MQError as error:  # it says which broker has it, and that one is away
            found.skipped.append(f"the message at this offset id: {error}")
            return found
        if message is not None:
            found.hits.append(self._hit(message))
            found.searched.append("the message at this offset id")
            return found
        topics, is_id = await self._topics(), len(text) == _ID_CHARACTERS and text.isalnum()
        asked = await ask_some([partial(self._in_topic, topic, text, is_id) for topic in topics[:TOPICS_MAX]])
        newest = sorted(asked.found, key=lambda each: -each.stored_ms)
        found.hits += [self._hit(each) for each in newest[:HITS_MAX]]
        what = "ids and keys" if is_id else "keys"
        found.searched.append(f"{what} of messages in {counted(asked.answered, 'topic')}, each as a whole")
        found.skipped += asked.left_out("topic", len(topics), TOPICS_MAX)
        if len(newest) > HITS_MAX:
            found.skipped.append(f"{len(newest) - HITS_MAX} older messages have this key: search in one topic")
        return found

    async def _by_offset_id(self, text: str) -> ReceivedMessage | None:
        try:
            return await self._stored.by_offset_id(text)
        except (MalformedMessageIdError, NotFoundError):
            return None

    async def _in_topic(self, topic: str, text: str, is_id: bool) -> list[ReceivedMessage]:
        if is_id:
            try:
                return [await self._stored.by_unique_key(topic, text)]
            except NotFoundError:
                pass
        return await self._stored.find(topic, text, count_max=HITS_MAX + 1)

    def _hit(self, message: ReceivedMessage) -> ClusterHit:
        subject = Subject(kind=SubjectKind.MESSAGE, name=message.offset_message_id, within=message.topic)
        keys = f", keys {' '.join(message.keys)}" if message.keys else ""
        text = f"{message.topic}, stored {shown_time(message.stored_ms)}{keys}"
        return ClusterHit(subject=subject, title=message.message_id, text=text)

    # --- clients and users ---

    async def _in_clients(self, text: str, sweep: ClusterSweep) -> _Found:
        found = _Found()
        if len(text) < _CLIENT_CHARACTERS_MIN:
            found.skipped.append(f"clients: write at least {_CLIENT_CHARACTERS_MIN} characters")
            return found
        groups = self._groups(sweep)
        asked = await ask_some([partial(self._members_of, group) for group in groups[:GROUPS_MAX]])
        for group, clients in asked.found:
            for client_id in matching(text, clients):
                subject = Subject(kind=SubjectKind.CLIENT, name=client_id, within=group)
                found.hits.append(ClusterHit(subject=subject, title=client_id, text=f"member of {group}"))
        found.searched.append(f"members of {counted(asked.answered, 'group')}")
        found.skipped += asked.left_out("group", len(groups), GROUPS_MAX)
        if len(found.hits) > HITS_MAX:
            found.skipped.append(f"{len(found.hits) - HITS_MAX} more clients contain the text: write more of it")
            del found.hits[HITS_MAX:]
        return found

    async def _members_of(self, group: str) -> list[tuple[str, list[str]]]:
        connected = await self._members.connections_if_any(group)
        return [(group, [each.client_id for each in connected.connection_set])] if connected else []

    async def _in_users(self, text: str) -> _Found:
        found = _Found()
        try:
            names = [each.username or "" for each in await self._access.users()]
        except MQError:  # not ours to list, or a cluster without users
            found.skipped.append("users: brokers keep none, or do not list them to this user")
            return found
        for name in matching(text, names)[:HITS_MAX]:
            found.hits.append(ClusterHit(subject=Subject(kind=SubjectKind.USER, name=name), title=name))
        found.searched.append(f"names of {counted(len(names), 'user')}")
        return found


class _Found:
    """What one part of a search found, and what it says of itself."""

    def __init__(self) -> None:
        self.hits: list[ClusterHit] = []
        self.searched: list[str] = []
        self.skipped: list[str] = []


def matching(text: str, names: Iterable[str]) -> list[str]:
    """Names that contain a text, whatever its case: the name itself, then those that begin with it, then the others."""
    needle = text.casefold()
    found = [name for name in names if needle in name.casefold()]
    return sorted(found, key=lambda name: (name.casefold() != needle, not name.casefold().startswith(needle), name))


class _Asked(Generic[T]):
    """Answers of many questions: what they found, how many answered, how many failed."""

    def __init__(self) -> None:
        self.found: list[T] = []
        self.answered = 0
        self.failed: list[MQError] = []
        self.is_late = False

    def left_out(self, noun: str, total: int, most: int) -> list[str]:
        """Sentences about those that were not asked, or did not answer."""
        lines = [f"{counted(len(self.failed), noun)} did not answer: {self.failed[0]}"] if self.failed else []
        missing = total - self.answered - len(self.failed)
        if missing:
            why = "time was up" if self.is_late else f"at most {most} are"
            lines.append(f"{counted(missing, noun)} not asked ({why})")
        return lines


async def ask_some(asks: Sequence[Callable[[], Awaitable[list[T]]]]) -> _Asked[T]:
    """Ask some at a time until all have answered or time is up."""
    answers, waiting = _Asked[T](), iter(asks)

    async def ask() -> None:
        for each in waiting:
            try:
                answers.found += await each()
                answers.answered += 1
            except MQError as error:
                answers.failed.append(error)

    try:
        async with asyncio.timeout(TIME_S_MAX):
            await asyncio.gather(*[ask() for _ in range(min(_AT_ONCE, len(asks)))])
    except TimeoutError:
        answers.is_late = True
    return answers
