"""Progress of groups, translated: offsets in one cluster become offsets in the other.

A group may go on over there where it stands here: at the copy of the first message that it has not consumed. It is
moved forward only, and not while it has members there. A group that is ahead of the mirror stands behind the newest
copy until the mirror has caught up: what it has consumed comes again if it moves before that.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pyromq.errors import GroupNotFoundError
from pyromq.operate.admin import Admin
from pyromq.pipeline.mirroring.copying import QueueCopier


class MirroredGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group in the other cluster: ``behind`` are messages there that it has not consumed, of all mirrored queues.

    ``is_exact`` is False while the group is ahead of the mirror, or consumes there already.
    """

    group: str
    behind: int
    is_exact: bool


async def ensure_group(admin: Admin, target: Admin, group: str) -> None:
    """Create the group in the other cluster, as it is here. Raises GroupNotFoundError."""
    config = await admin.groups.require(group)
    try:
        await target.groups.require(group)
    except GroupNotFoundError:
        await target.groups.create(config)


async def translate(admin: Admin, target: Admin, group: str, copiers: Iterable[QueueCopier]) -> MirroredGroup:
    """Bring the offsets of a group over, queue by queue."""
    behind, is_exact = 0, True
    has_members = await target.members.connections_if_any(group) is not None
    for each in copiers:
        there = await target.offsets.committed(group, each.target.queue)
        offset = await admin.offsets.committed(group, each.queue)
        if offset is None or each.newest is None:
            continue
        wanted = await each.target.offset_of(each.queue, offset, each.newest)
        is_exact = is_exact and offset <= each.next and not has_members
        if not has_members and (there is None or wanted > there):
            await target.offsets.commit(group, each.target.queue, wanted)
            there = wanted
        behind += max(0, each.newest.offset + 1 - (there or 0))
    return MirroredGroup(group=group, behind=behind, is_exact=is_exact)
