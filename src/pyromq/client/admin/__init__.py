"""Administration on asyncio: topics, groups, messages, brokers.

    async with Admin("10.0.0.1:9876") as admin:
        await admin.create_topic("orders", queues=8)
        lag = await admin.lag("billing")

What concerns a cluster is asked of the masters of all its brokers, and their responses are put together. Names are
plain; the namespace of the client, if it has one, is added. One module per noun; ``Admin`` is all of them.
"""

from __future__ import annotations

from pyromq.client.admin.access import AccessAdmin
from pyromq.client.admin.auditing import AuditAdmin
from pyromq.client.admin.direct_consumption import DirectConsumptionAdmin
from pyromq.client.admin.examining import ExamineAdmin
from pyromq.client.admin.explaining import ExplainAdmin
from pyromq.client.admin.failures import FailureAdmin
from pyromq.client.admin.messages.copies import CopyAdmin
from pyromq.client.admin.messages.search import FollowAdmin
from pyromq.client.admin.offsets import EARLIEST, LATEST
from pyromq.client.admin.operating.maintenance import MaintenanceAdmin
from pyromq.client.admin.operating.overview import OverviewAdmin
from pyromq.client.admin.operating.statistics import StatisticsAdmin
from pyromq.client.admin.schemas import SchemaAdmin
from pyromq.client.admin.steering.group_state import GroupStateAdmin
from pyromq.client.admin.steering.moves import MoveAdmin

__all__ = ["EARLIEST", "LATEST", "Admin"]


class Admin(
    FailureAdmin,
    ExplainAdmin,
    ExamineAdmin,
    GroupStateAdmin,
    MoveAdmin,
    CopyAdmin,
    FollowAdmin,
    DirectConsumptionAdmin,
    SchemaAdmin,
    StatisticsAdmin,
    AccessAdmin,
    AuditAdmin,
    OverviewAdmin,
    MaintenanceAdmin,
):
    """Everything an operator may ask or do; these lean on all the others."""
