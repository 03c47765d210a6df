"""Commit: what was written to the log together, on its way to its responses.

    GroupCommit ─▶ DiskStage.take ─▶ ReplicaStage.take ─▶ Acknowledger.release | refuse
                                  └▶ NoReplicas.take ───┘

Every stage has one method for it, and passes it on when its own condition holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import msgspec

from pyromq.broker.commit.touched import Touched
from pyromq.errors import MQError
from pyromq.wire.codes import RequestCode
from pyromq.wire.received import Received


class SendsOfOneRead(msgspec.Struct, frozen=True, gc=False):
    """Sends that were staged together by the send lane: how many, and how many of them are answered."""

    code: ClassVar[int] = int(RequestCode.SEND_MESSAGE_V2)  # in statistics; nearly all that the lane takes
    sends: int
    responses: int


class SendOrigin(Protocol):
    """Where sends came from and responses go to: a connection, or what stands for one of another protocol."""

    @property
    def remote_text(self) -> str: ...

    def send(self, frame: bytes) -> None: ...

    def queue(self, frames: bytes, count: int = 1) -> object: ...

    def send_now(self, frames: bytes, count: int = 1) -> None: ...

    def flush(self) -> None: ...

    def abort(self, reason: str) -> None: ...


PendingSend = tuple[SendOrigin, Received[Any] | SendsOfOneRead, bytes]
"""A staged message: its connection, its request, and the response if all goes well (empty for one-way sends).

Of several that were staged together, all responses in one piece; each says whose it is. ``with_status`` gives them
another code without reading them.
"""

OnStored = Callable[[MQError | None], None]
"""Hears of an internal write: None when it is stored as safely as this store promises, else why it is not."""


class Commit(msgspec.Struct):
    """Sends and internal writes that end at one position of the log, and the queues that got messages."""

    end: int
    sends: list[PendingSend]
    send_count: int  # one item of ``sends`` may stand for several
    internal: list[OnStored]
    queues: Touched
    since_ms: int = -1  # when it was written; -1: nothing in it waits

    @property
    def is_answered(self) -> bool:
        """Nobody waits for it; it only makes messages visible."""
        return not self.sends and not self.internal


class CommitStage(Protocol):
    """What stands between the disk and the responses."""

    waits: bool  # a send may wait here, unless its sender does not want to

    @property
    def flushes_early(self) -> bool:
        """With async flush, too, everything is flushed at once: replicas get what is on disk."""

    def take(self, commit: Commit) -> None:
        """Take over a commit that is as safe as the stages before promise."""

    def release_confirmed(self) -> None:
        """Pass on, or refuse, whatever need not wait any longer."""

    async def drain(self) -> None:
        """Return when nothing waits here."""
