"""The health of the cluster: what ``pyromq doctor`` says, kept for a while, because it asks about every group."""

from __future__ import annotations

from typing import Final

import msgspec

from pyromq.console.desk import Desk
from pyromq.errors import MQError, printable
from pyromq.operate.health import ClusterFinding, ClusterSeverity

_HEALTH_MS: Final = 20_000
_WAIT_S: Final = 0.25


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """``worst`` of all findings, the worst first; ``examining`` while the first look is not over."""

    worst: ClusterSeverity
    findings: list[ClusterFinding]
    examining: bool = False

    @property
    def troubles(self) -> list[ClusterFinding]:
        return [each for each in self.findings if each.severity is not ClusterSeverity.OK]


async def health(desk: Desk) -> Health:
    """Never raises MQError: that nobody answers is a finding."""
    try:
        found = await desk.cache.get_soon("health", _HEALTH_MS, desk.admin.health.findings, wait_s=_WAIT_S)
    except MQError as error:
        text = f"could not be examined: {printable(str(error))}"
        found = [ClusterFinding(severity=ClusterSeverity.BAD, about="cluster", text=text)]
    if found is None:
        return Health(worst=ClusterSeverity.OK, findings=[], examining=True)
    return Health(worst=found[0].severity if found else ClusterSeverity.OK, findings=found)
