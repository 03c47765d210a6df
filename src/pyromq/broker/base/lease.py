"""The lease of a broker that a failover agent looks after: until when it lasts, and what the broker keeps of leases.

    config/failover.json    {"number":4,"log_number":4,"role":"master","master":"","epochs":[{"number":1,"start":0,
                             "mark":77}, …],"members":["10.0.0.2:10911"]}

``number`` is the highest lease that this broker knows of: it obeys none with a smaller one. ``log_number`` is the
last one under which its log was written, here or where it was copied from. ``epochs`` say from which position on each
lease wrote the log. A broker that comes under a newer lease cuts what it has behind the position at which the first
lease after its own ``log_number`` began, or the first one that only one of the two logs has: up to there they are the
same. ``promised`` is the newest of them under which something is known to be acknowledged: what has to be cut under a
lease whose holder's log was never written under that one waits for an operator, whose word is ``decided``, the newest
lease that one chose. ``members`` are the brokers that could have been master: who is not sure of the lease store asks
them. The file is written before the broker acts on it, ``log_number`` after the cut. ``owner`` is the broker whose file
it is: one that finds another's has a copy of that one's disk. What it says of the log is true of the copy, too; who was
master, and which lease is the newest, is not.

A grant ends at a moment of the machine's clock; ``authority`` compares it when acknowledgements leave.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Final

import msgspec

from pyromq.clock import machine_s
from pyromq.store.files.disk import Disk
from pyromq.store.files.whole_file import WholeFile
from pyromq.wire.json.membership import Epoch, parting

logger = logging.getLogger(__name__)

FILE_NAME: Final = "failover.json"
EPOCHS_MAX: Final = 1_000  # the oldest are forgotten: a broker that was away for longer starts with an empty folder
MEMBERS_MAX: Final = 64
_NEVER: Final = 1 << 63
_NOTE_S: Final = 30.0  # an agent says again what it waits for; what is older is not true any more


class LeaseState(msgspec.Struct, frozen=True, kw_only=True):
    """What must survive a restart."""

    number: int = 0
    log_number: int = 0
    role: str = ""  # "master" or "replica"; empty before the first lease
    master: str = ""  # of a replica: whom it follows
    epochs: tuple[Epoch, ...] = ()
    members: tuple[str, ...] = ()  # other brokers of this name
    waits: bool | None = None  # whether it waits for replicas as master, as the lease said; None: it did not
    promised: Epoch | None = None  # on its disk before the first acknowledgement under that lease
    is_new: bool = False  # its disk was empty or a copy, and nobody who was sure has said since which is the newest
    decided: int = 0  # an operator chose the holder of this lease: what others had alone is cut
    owner: str = ""  # address of the broker that wrote it; empty in older files

    def copied_by(self, address: str) -> LeaseState:
        """The state of a broker that has a copy of the owner's disk: it follows whom its agent names, no sooner."""
        members = tuple(sorted({*self.members, self.owner} - {address}))
        role = "replica" if self.role else ""
        return msgspec.structs.replace(self, role=role, master="", members=members, is_new=True, owner=address)

    def cut_position(self, epochs: tuple[Epoch, ...]) -> int | None:
        """Up to where this log agrees with one that has these epochs; None: as far as it goes."""
        if not self.log_number:
            return None  # it was never written under a lease: comparing the logs decides
        later = [each.start for each in epochs if each.number > self.log_number]
        if self.epochs:
            parted = parting(self.epochs, tuple(each for each in epochs if each.number <= self.log_number))
            later += [parted] if parted is not None else []
        return min(later, default=None)

    @property
    def is_promised(self) -> bool:
        """Whether something is known to be acknowledged under the last lease that the log was written under."""
        return bool(self.epochs) and self.promised == self.epochs[-1]

    def broken_promise(self, epochs: tuple[Epoch, ...]) -> Epoch | None:
        """The lease that was acknowledged under and that a log with these epochs lacks, unless an operator said so.

        Who takes over by the rules has everything acknowledged, and so this lease: the log lacks it because the lease
        store was set back, and the set went on twice. One that the other log may have forgotten is not missed.
        """
        promised = self.promised
        if promised is None or promised.number < self.decided:  # another lease of that number is a later one
            return None
        if len(epochs) >= EPOCHS_MAX and promised.number < epochs[0].number:
            return None
        return None if any(promised.is_same(each) for each in epochs) else promised


class Lease:
    """One for the life of a broker; its parts come and go with its role."""

    def __init__(
        self,
        now_s: Callable[[], float] = machine_s,
        new_mark: Callable[[], int] | None = None,
    ) -> None:
        self._now_s = now_s
        self._new_mark = new_mark or partial(SystemRandom().randrange, 1, 1 << 53)
        self._waiting = "", float("-inf")
        self._until_s = float("-inf")
        self._file: WholeFile | None = None
        self.is_copy = False  # the file is another broker's, and stays it until this one takes part
        self.state = LeaseState()
        self.unpromised = _NEVER  # nothing beyond it was acknowledged: the first that is, is noted on disk before
        self.failing = ""  # why nothing can be acknowledged though the lease lasts; empty when it can
        self.required: tuple[str, ...] = ()  # replicas that have to have what is acknowledged
        self.renewals = 0  # of the record that the last grant came from
        self.away: dict[str, int] = {}  # members that are not in sync, and since when, in Unix ms
        self.acknowledged = 0  # end of the last message that a producer knows to be safe, or a consumer was shown
        self.cut_messages = 0  # that this broker had alone when it came back, and that are kept in its folder

    def load(self, disk: Disk, config: Path, address: str = "") -> None:
        """Load the lease of the broker with this address from its file. Raises CorruptFileError, OSError.

        Without an address, of a broker that has another one with every start, nothing says whose the file is.
        """
        self._file = WholeFile(disk, config / FILE_NAME)
        state = self._file.load(msgspec.json.Decoder(LeaseState).decode) or LeaseState(is_new=True)
        if address and state.owner and state.owner != address:
            logger.warning("the store is a copy of another broker's: owner=%s, here=%s", state.owner, address)
            state, self.is_copy = state.copied_by(address), True
        elif address and state.number and not state.owner:
            with suppress(OSError):  # of an older version: nothing else may change for months, and copies are made
                self._file.save(msgspec.json.encode(msgspec.structs.replace(state, owner=address)))
        self._take_over(msgspec.structs.replace(state, owner=address))

    @property
    def is_loaded(self) -> bool:
        return self._file is not None

    def save(self, state: LeaseState) -> None:
        """Write the lease to its file and take it over. Raises OSError; then nothing has changed."""
        assert self._file is not None, "not loaded"
        if state != self.state or self.is_copy:
            self._file.save(msgspec.json.encode(state))
            self._take_over(state)
            self.is_copy = False
            self.failing = ""

    def _take_over(self, state: LeaseState) -> None:
        self.state = state
        self.unpromised = state.epochs[-1].start if state.epochs and not state.is_promised else _NEVER

    # --- until when it lasts ---

    @property
    def is_open(self) -> bool:
        return self._now_s() < self._until_s

    @property
    def left_s(self) -> float:
        return max(0.0, self._until_s - self._now_s())

    def grant(self, number: int, until_s: float, required: tuple[str, ...], renewals: int = 0) -> bool:
        """False when it is for another lease than the one under which this broker is master, or late.

        A grant that ends earlier than the last one was overtaken by it, unless it ends now: that is how one ends. New
        replicas are on disk as members before they are waited for. Raises OSError.
        """
        if self.state.role != "master" or number != self.state.number or self._now_s() < until_s < self._until_s:
            return False
        if not set(required) <= set(self.state.members):
            self._keep_members({*self.state.members, *required})
        self._until_s, self.required, self.renewals = until_s, required, renewals
        return True

    def note(self, waiting: str, members: tuple[str, ...], newest: int = 0) -> None:
        """What the agent waits for, who the members are (empty: as before), and the newest lease (0: not known).

        Raises OSError.
        """
        self._waiting = waiting, self._now_s()
        if members:
            self._keep_members(members)
        if newest and newest == self.state.number:
            self.save(msgspec.structs.replace(self.state, is_new=False))

    def _keep_members(self, members: Collection[str]) -> None:
        kept = tuple(sorted(members))[:MEMBERS_MAX]
        self.save(msgspec.structs.replace(self.state, members=kept))

    @property
    def waiting(self) -> str:
        """What the agent waits for before anything is acknowledged; empty when it does not, or is gone."""
        text, at_s = self._waiting
        return text if self._now_s() - at_s <= _NOTE_S else ""

    def end(self) -> None:
        """Nothing is acknowledged from now on."""
        self._until_s = float("-inf")

    # --- what becomes of it ---

    def promoted(self, number: int, end: int, waits: bool | None = None) -> None:
        """It is master under this lease, with a log that ends there. Raises OSError.

        Leases that the log has nothing of, which was copied in part from one that has, are none of its own: what others
        acknowledged under them would be cut without a word.
        """
        epochs = tuple(each for each in self.state.epochs if each.number < number and each.start < end)
        promised = self.state.promised
        if promised is not None and promised.start >= end:
            promised = epochs[-1] if epochs else None
        epochs = (*epochs, Epoch(number=number, start=end, mark=self._new_mark()))[-EPOCHS_MAX:]
        self.end()
        self.required, self.renewals = (), 0
        state = msgspec.structs.replace(self.state, number=number, log_number=number, role="master", master="")
        self.save(msgspec.structs.replace(state, epochs=epochs, waits=waits, promised=promised, is_new=False))
        self.acknowledged = end  # any of it may have been
        logger.warning("master under lease %d, from position %d on", number, end)

    def promise(self) -> None:
        """Something is acknowledged under the lease that the log is written under. Raises OSError."""
        if self.state.epochs:
            self.save(msgspec.structs.replace(self.state, promised=self.state.epochs[-1]))

    def follows(self, master: str, number: int, decided: int = 0) -> None:
        """It is a replica of that one; an operator chose the holder of the lease ``decided``. Raises OSError.

        Another's disk stays that one's until a master agrees with it, if this is the lease that its file knows: a
        broker that was started with a wrong address, and then with its own, is the master that it was.
        """
        self.end()
        is_known = self.is_copy and number == self.state.number and decided <= self.state.decided
        state = msgspec.structs.replace(self.state, number=number, role="replica", master=master)
        state = msgspec.structs.replace(state, decided=max(decided, state.decided))
        if is_known:
            self._take_over(state)
        else:
            self.save(state)

    def agreed(self, epochs: tuple[Epoch, ...]) -> None:
        """The log here is a prefix of the master's, which has these epochs. Raises OSError."""
        state = msgspec.structs.replace(self.state, log_number=self.state.number, epochs=epochs[-EPOCHS_MAX:])
        is_kept = state.promised is not None and any(state.promised.is_same(each) for each in state.epochs)
        self.save(state if is_kept else msgspec.structs.replace(state, promised=None))
