"""Specifications of jobs: what is to be done, typed, as the API takes it and as it is kept on disk."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

import msgspec

from pyromq.errors import ConfigError
from pyromq.operate.letter_filter import EVERY_LETTER, LETTERS_MAX, LetterFilter, Places, Texts
from pyromq.operate.resend.edits import EDITED_BYTES_MAX, LetterEdit, check_edit
from pyromq.wording import counted

ITEMS_MAX: Final = LETTERS_MAX  # that are named one by one
NAMED_MAX: Final = 20  # letters that a command line names; a job has room for more
RATE_MAX: Final = 10_000.0
_SENT_IS_SENT: Final = (
    "A message that was sent cannot be called back: consumers get it, unless a reset of offsets skips it."
)
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """``run_id`` is that of the first job of a chain: a job that continues another one makes the same copies."""

    run_id: Annotated[str, msgspec.Meta(max_length=64)] = ""
    title: ClassVar[str] = ""
    undo_note: ClassVar[str] = ""  # whether what was done can be undone, in a sentence

    def commands(self) -> list[list[str]]:
        """The words behind ``pyromq`` that do the same on a command line; empty if only a job does it."""
        return []

    def check(self) -> None:
        """Raise ConfigError for what no field alone can say is wrong."""

    def text(self) -> str:
        """Specification in words, for lists."""
        return self.title


class Redrive(Spec, frozen=True, kw_only=True, tag="redrive"):
    """Dead letters to where they came from: all that are not redriven, or those that a ``LetterFilter`` chooses.

    One letter that is named can be sent with an ``edit``: another body, other keys, tags, properties.
    """

    group: Name
    letters: Places = ()
    keys: Texts = ()
    tags: Texts = ()
    topics: Texts = ()
    errors: Texts = ()
    search: Annotated[str, msgspec.Meta(max_length=4096)] = ""
    only_group: bool = False
    edit: LetterEdit | None = None
    title: ClassVar[str] = "Redrive dead letters"
    undo_note: ClassVar[str] = f"{_SENT_IS_SENT} The letters stay where they are."

    def check(self) -> None:
        if self.edit is None:
            return
        if len(self.letters) != 1:
            raise ConfigError("an edit is for one letter: name it, by its offset message id, and no other")
        if len(self.edit.body) > EDITED_BYTES_MAX:
            raise ConfigError(f"the body is larger than {EDITED_BYTES_MAX} bytes: send it with pyromq send instead")
        check_edit(self.edit)

    @classmethod
    def chosen(
        cls, group: str, which: LetterFilter, *, only_group: bool = False, edit: LetterEdit | None = None
    ) -> Redrive:
        """Return the job for the letters that a filter chooses."""
        return cls(group=group, only_group=only_group, edit=edit, **msgspec.structs.asdict(which))

    @property
    def which(self) -> LetterFilter:
        return LetterFilter(
            letters=self.letters,
            keys=self.keys,
            tags=self.tags,
            topics=self.topics,
            errors=self.errors,
            search=self.search,
        )

    def commands(self) -> list[list[str]]:
        if self.edit is not None or len(self.letters) > NAMED_MAX:
            return []
        words = ["dlq", "redrive", self.group]
        for option in ("letter", "key", "tag", "topic", "error"):
            words += [word for text in getattr(self, f"{option}s") for word in (f"--{option}", text)]
        words += ["--search", self.search] if self.search else []
        return [words + (["--only-group"] if self.only_group else [])]

    def text(self) -> str:
        if self.edit is not None:
            which = "one edited dead letter"
        else:
            which = counted(len(self.letters), "chosen dead letter") if self.letters else "dead letters"
        which += " that a filter chooses" if not self.letters and self.which != EVERY_LETTER else ""
        return f"{which} of group {self.group}" + (" to this group alone" if self.only_group else "")


class CopyTopic(Spec, frozen=True, kw_only=True, tag="copy"):
    """Messages of a topic that are stored now to another topic, oldest first in each queue."""

    topic: Name
    to_topic: Name
    begin_ms: Offset = 0
    end_ms: Offset = (1 << 63) - 1
    tag: Annotated[str, msgspec.Meta(max_length=4096)] = ""
    sql: Annotated[str, msgspec.Meta(max_length=4096)] = ""
    count_max: Annotated[int, msgspec.Meta(ge=0)] = 0
    title: ClassVar[str] = "Copy messages to another topic"
    undo_note: ClassVar[str] = _SENT_IS_SENT

    def text(self) -> str:
        return f"messages of topic {self.topic} to topic {self.to_topic}"


class Resend(Spec, frozen=True, kw_only=True, tag="resend"):
    """Chosen messages, by offset message id, again to their topic, to another one, or to one group alone."""

    messages: Places
    to_topic: Annotated[str, msgspec.Meta(max_length=255)] = ""
    to_group: Annotated[str, msgspec.Meta(max_length=120)] = ""
    title: ClassVar[str] = "Send messages again"
    undo_note: ClassVar[str] = _SENT_IS_SENT

    def text(self) -> str:
        where = f"group {self.to_group} alone" if self.to_group else self.to_topic or "where they were sent first"
        return f"{len(self.messages)} messages to {where}"


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """One queue of a group: from where it stands (None: nowhere yet) to where it shall go on."""

    topic: Name
    broker: Name
    queue: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
    old: Offset | None = None
    new: Offset


class ResetOffsets(Spec, frozen=True, kw_only=True, tag="reset"):
    """A group to other offsets, as a preview has shown them. A queue that has moved since is left alone.

    With ``is_forced`` it is moved all the same: consumers commit while a preview is looked at.
    """

    group: Name
    moves: Annotated[tuple[Move, ...], msgspec.Meta(min_length=1, max_length=ITEMS_MAX)]
    is_forced: bool = False
    title: ClassVar[str] = "Reset offsets"
    undo_note: ClassVar[str] = (
        "Undo moves each queue back to the offset that it had before this job. What was consumed meanwhile stays so, "
        "and what comes after that offset is delivered again."
    )

    def commands(self) -> list[list[str]]:
        lines = []
        for move in self.moves:
            where = ["--topic", move.topic, "--queue", f"{move.broker}:{move.queue}", "--to-offset", str(move.new)]
            lines.append(["group", "reset", self.group, *where, "--yes"])
        return lines

    def text(self) -> str:
        return f"group {self.group} in {counted(len(self.moves), 'queue')}"


class Delete(Spec, frozen=True, kw_only=True, tag="delete"):
    """Topics with their messages, or groups with their progress."""

    what: Literal["topic", "group"]
    names: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=ITEMS_MAX)]
    title: ClassVar[str] = "Delete"
    undo_note: ClassVar[str] = "What was deleted cannot be brought back: neither messages nor progress are kept."

    def commands(self) -> list[list[str]]:
        return [[self.what, "delete", name, "--yes"] for name in self.names]

    def text(self) -> str:
        return counted(len(self.names), self.what)


JobSpec = Redrive | CopyTopic | Resend | ResetOffsets | Delete


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How fast: ``rate`` items per second (0: no limit), and after ``canary`` items a wait for a go (0: none)."""

    rate: Annotated[float, msgspec.Meta(ge=0, le=RATE_MAX)] = 0.0
    canary: Annotated[int, msgspec.Meta(ge=0, le=ITEMS_MAX)] = 0


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """What the API takes. A dry run says of each item what would be done, and does nothing."""

    spec: JobSpec
    pace: Pace = Pace()
    dry_run: bool = False
