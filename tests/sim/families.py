"""Families of seeds: what the plan of a seed has besides a minute of faults.

         0   a minute of faults
    40 000   four times as much is sent; half of the seeds have quiet phases, with a burst of faults after each
    50 000   operators who do more than change masters, and lost disks
    70 000   lives that are mostly quiet, and access control
    90 000   damaged messages, and nothing that takes a member away
   100 000   a mix: the seed itself says which of these it is (``MIX``)
   200 000   besides, brokers, machines and clients are stopped in order, as by a deployment
   300 000   besides, some delete files that every group has read, after a minute
   400 000   besides, disks are lost in all bursts, and files are deleted where disks are full
   500 000   besides, disks are slow for a while, or are replaced by older copies of themselves
   600 000   besides, a bit of a table changes on the disk of a broker that is down
   700 000   besides, machines are suspended, and a member gets a copy of another one's disk
   800 000   besides, the lease store fails over to a standby that lacks the last moments, and delayed messages wait for
             up to ten minutes; new seeds are of these

A seed that was run once stays what it was: what is added is added to a family of later seeds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Final

MIX_FROM: Final = 100_000
STOPS_FROM: Final = 200_000
RETENTION_FROM: Final = 300_000
DISKS_FROM: Final = 400_000
COPIES_FROM: Final = 500_000
TABLES_FROM: Final = 600_000
SLEEPS_FROM: Final = 700_000
STANDBY_FROM: Final = 800_000
NEW_FROM, NEW_TO = 1_000_000, 1_000_000_000  # ``--minutes`` draws one of these, and goes on from there


@dataclass(frozen=True, slots=True)
class Family:
    """What a plan has; without anything it is a minute of faults."""

    name: str
    burst_s: tuple[float, float] = (20.0, 60.0)  # how long the first burst of faults lasts
    is_prompt: bool = False  # it begins when the cluster is whole, not twelve seconds after the first moment
    quiet_counts: tuple[int, ...] = ()  # of quiet phases, one of these
    quiet_s: tuple[float, float] = (60.0, 400.0)
    has_defaults: bool = False  # all intervals of seeds with quiet phases are the product's, also that of metadata
    batch: int = 3  # messages that are sent together
    has_operators: bool = False
    may_lose_disks: bool = False
    may_have_access: bool = False
    is_damaged: bool = False  # single messages, and nothing else takes a member away: while it is, nobody has them

    @property
    def sends_more(self) -> bool:
        return bool(self.quiet_counts)


PLAIN: Final = Family("plain")
QUIET: Final = Family("quiet", quiet_counts=(0, 0, 1, 2))
OPERATED: Final = replace(QUIET, name="operated", has_operators=True, may_lose_disks=True)
LIFE: Final = replace(
    OPERATED, name="life", quiet_counts=(0, 1, 1, 2), quiet_s=(300.0, 1_500.0), batch=10, may_have_access=True
)
DAMAGED: Final = replace(LIFE, name="damaged", quiet_counts=(0,), may_lose_disks=False, is_damaged=True)
DENSE: Final = replace(OPERATED, name="dense", quiet_counts=(0,), burst_s=(40.0, 120.0), is_prompt=True)
_IDLE_OPERATED: Final = replace(OPERATED, has_defaults=True)
_IDLE_LIFE: Final = replace(LIFE, has_defaults=True)

FIRST: Final = ((90_000, DAMAGED), (70_000, LIFE), (50_000, OPERATED), (40_000, QUIET), (0, PLAIN))
MIX: Final = ((DENSE, 50), (_IDLE_OPERATED, 20), (_IDLE_LIFE, 20), (DAMAGED, 10))  # of a hundred seeds
NAMES: Final = tuple(sorted({family.name for family, _ in MIX} | {family.name for _, family in FIRST}))


def family_of(seed: int) -> Family:
    if seed < MIX_FROM:
        return next(family for first, family in FIRST if seed >= first)
    families, weights = zip(*MIX, strict=True)
    return Random(f"{seed}/family").choices(families, weights)[0]
