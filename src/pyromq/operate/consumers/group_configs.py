"""Configurations of all groups, by asking every broker for all it has.

To be asked about one group is enough for a broker to create it, so nobody asks about one.
"""

from __future__ import annotations

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.core.tasks import gather
from pyromq.errors import GroupNotFoundError
from pyromq.model.names import validate_group
from pyromq.model.topic import GroupConfig
from pyromq.wire.codes import ResponseCode


async def tables_by_master(requests: AdminRequests) -> dict[str, dict[str, GroupConfig]]:
    """Return the groups of each master by its address; names are as brokers have them."""
    masters = await requests.directory.masters()
    tables = await gather([requests.brokers.group_configs(address) for address in masters])
    return dict(zip(masters, tables, strict=True))


async def configs_of_groups(requests: AdminRequests) -> dict[str, GroupConfig]:
    """Return all groups with their configuration, as the first broker that knows each has it."""
    found: dict[str, GroupConfig] = {}
    for table in (await tables_by_master(requests)).values():
        for name, config in table.items():
            found.setdefault(requests.client.plain_name(name), config)
    return found


async def require_group(requests: AdminRequests, group: str) -> GroupConfig:
    """Return the configuration of a group that exists. Raises GroupNotFoundError."""
    found = (await configs_of_groups(requests)).get(group)
    if found is None:
        raise no_group(group)
    return found


async def create_group(
    requests: AdminRequests, group: GroupConfig | str, *, cluster: str = "", broker: str = ""
) -> None:
    """Create or change a consumer group. Raises InvalidNameError."""
    config = GroupConfig(group_name=group) if isinstance(group, str) else group
    name = requests.client.wire_name(validate_group(config.group_name))
    config = msgspec.structs.replace(config, group_name=name)
    masters = await requests.directory.masters(cluster, broker)
    await gather([requests.brokers.update_group(address, config) for address in masters])


def no_group(group: str) -> GroupNotFoundError:
    return GroupNotFoundError(code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark=f"no broker has a group {group}")
