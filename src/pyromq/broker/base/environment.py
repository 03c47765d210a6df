"""What a broker gets from outside: its settings, time, chance and the disk."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from pyromq.broker.base.access import OPEN, Access
from pyromq.broker.base.authority import Authority, Leased, Unmanaged
from pyromq.broker.base.lease import Lease
from pyromq.broker.base.settings import BrokerSettings
from pyromq.clock import Clock
from pyromq.replication.settings import Role
from pyromq.store.files.disk import Disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Shared by every part of one broker."""

    settings: BrokerSettings  # the broker's own copy: ``config`` changes it while the broker runs
    clock: Clock
    disk: Disk
    rng: Random
    access: Access = OPEN
    lease: Lease | None = None  # of a broker under a failover agent

    @property
    def authority(self) -> Authority:
        """Whether the broker may act as master at the moment."""
        if self.lease is None:
            return Unmanaged()
        return Leased(self.lease, promises=self.settings.replication.role is Role.SYNC_MASTER)
