"""Reports of a replay: a list of outcomes that prints as a table, and the comparison of two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import msgspec

from pyromq.lab.outcomes import OutcomeKind, ReplayOutcome
from pyromq.lab.tables import html_table, text_table
from pyromq.wording import counted, shown_time

if TYPE_CHECKING:
    from pyromq.lab.replays import Replay

_HEAD = ("stored", "message", "keys", "body", "outcome", "ms", "said", "recorded")
_COMPARED_HEAD = ("message", "keys", "body", "before", "now", "recorded")
_BODY_BYTES = 40


class ReplayReport(Sequence[ReplayOutcome]):
    """The outcomes of one handler, oldest message first. ``is_cut``: there are more messages than the limit."""

    def __init__(self, outcomes: Sequence[ReplayOutcome], *, handler: str, replay: Replay, is_cut: bool) -> None:
        self.outcomes = tuple(outcomes)
        self.handler = handler
        self.is_cut = is_cut
        self._replay = replay

    @overload
    def __getitem__(self, index: int) -> ReplayOutcome: ...
    @overload
    def __getitem__(self, index: slice) -> ReplayReport: ...
    def __getitem__(self, index: int | slice) -> ReplayOutcome | ReplayReport:
        return self._with(self.outcomes[index]) if isinstance(index, slice) else self.outcomes[index]

    def __len__(self) -> int:
        return len(self.outcomes)

    def __iter__(self) -> Iterator[ReplayOutcome]:
        return iter(self.outcomes)

    # --- parts of it ---

    @property
    def failed(self) -> ReplayReport:
        """What did not end well: the handler raised, or asked for the message again."""
        return self.filter(lambda outcome: not outcome.is_ok)

    @property
    def ok(self) -> ReplayReport:
        return self.filter(lambda outcome: outcome.is_ok)

    @property
    def surprising(self) -> ReplayReport:
        """Ended otherwise than some group has recorded: fails here and was consumed, or works here and was not."""
        return self.filter(_is_surprising)

    def filter(self, keep: Callable[[ReplayOutcome], bool]) -> ReplayReport:
        """Those for which ``keep`` is true."""
        return self._with([outcome for outcome in self.outcomes if keep(outcome)])

    def compare(self, handler: Callable[..., Any], **given: Any) -> HandlerComparison:
        """Run another handler over the same messages and compare. Raises ConfigError."""
        now = self._replay.again(self, handler, given)
        return HandlerComparison(self, now)

    async def compare_async(self, handler: Callable[..., Any], **given: Any) -> HandlerComparison:
        """``compare`` on the running loop."""
        return HandlerComparison(self, await self._replay.again_async(self, handler, given))

    def _with(self, outcomes: Sequence[ReplayOutcome]) -> ReplayReport:
        return ReplayReport(outcomes, handler=self.handler, replay=self._replay, is_cut=self.is_cut)

    # --- for people ---

    @property
    def title(self) -> str:
        kinds = [(kind, sum(outcome.kind is kind for outcome in self.outcomes)) for kind in OutcomeKind]
        text = ", ".join(f"{count} {kind}" for kind, count in kinds if count) or "none"
        return f"{counted(len(self), 'message')} of {self._replay.what} through {self.handler}: {text}"

    @property
    def notes(self) -> list[str]:
        return [f"There are more: limit={self._replay.selection.limit} is reached."] if self.is_cut else []

    def __str__(self) -> str:
        return text_table(self.title, _HEAD, [_row(outcome) for outcome in self.outcomes], self.notes)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table(self.title, _HEAD, [_row(outcome) for outcome in self.outcomes], self.notes)


class Pair(msgspec.Struct, frozen=True):
    """One message through both handlers."""

    before: ReplayOutcome
    now: ReplayOutcome

    @property
    def is_changed(self) -> bool:
        """Ends otherwise, returns something else, or raises another error."""
        return (self.before.kind, self.before.text) != (self.now.kind, self.now.text)


class HandlerComparison(Sequence[Pair]):
    """Two handlers over the same messages."""

    def __init__(self, before: ReplayReport, now: ReplayReport) -> None:
        self.before = before
        self.now = now
        self.pairs = tuple(Pair(*both) for both in zip(before, now, strict=True))

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Pair]: ...
    def __getitem__(self, index: int | slice) -> Pair | Sequence[Pair]:
        return self.pairs[index]

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def changed(self) -> list[Pair]:
        return [pair for pair in self.pairs if pair.is_changed]

    @property
    def fixed(self) -> list[Pair]:
        """Failed before, and does so no more."""
        return [pair for pair in self.pairs if not pair.before.is_ok and pair.now.is_ok]

    @property
    def broken(self) -> list[Pair]:
        """Worked before, and fails now."""
        return [pair for pair in self.pairs if pair.before.is_ok and not pair.now.is_ok]

    @property
    def title(self) -> str:
        text = f"{len(self.changed)} changed, {len(self.fixed)} fixed, {len(self.broken)} broken"
        return f"{counted(len(self), 'message')}, {self.before.handler} before and {self.now.handler} now: {text}"

    def __str__(self) -> str:
        return text_table(self.title, _COMPARED_HEAD, [_compared(pair) for pair in self.changed], self.before.notes)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table(self.title, _COMPARED_HEAD, [_compared(pair) for pair in self.changed], self.before.notes)


def _is_surprising(outcome: ReplayOutcome) -> bool:
    was_fine = {"consumed": True, "dead letter": False, "retrying": False}
    known = [was_fine[story.state] for story in outcome.recorded if story.state in was_fine]
    return any(fine is not outcome.is_ok for fine in known)


def _row(outcome: ReplayOutcome) -> tuple[str, ...]:
    message = outcome.message
    return (
        shown_time(message.stored_ms),
        message.message_id,
        " ".join(message.keys),
        _body(outcome),
        str(outcome.kind),
        f"{outcome.elapsed_ms:.1f}",
        outcome.text,
        outcome.recorded_text,
    )


def _compared(pair: Pair) -> tuple[str, ...]:
    message = pair.before.message
    texts = [f"{each.kind} {each.text}".strip() for each in (pair.before, pair.now)]
    return message.message_id, " ".join(message.keys), _body(pair.before), *texts, pair.before.recorded_text


def _body(outcome: ReplayOutcome) -> str:
    body = outcome.message.body
    text = body[:_BODY_BYTES].decode("utf-8", "replace")
    return text + ("…" if len(body) > _BODY_BYTES else "")
