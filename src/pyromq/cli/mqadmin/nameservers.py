"""mqadmin's sub-commands about name servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pyromq.cli.declared import Option
from pyromq.cli.mqadmin.printing import line

if TYPE_CHECKING:
    from pyromq.aio import Admin

KeyOption = Annotated[str, Option("-k", "--key", help="Set the key name.")]
ValueOption = Annotated[str, Option("-v", "--value", help="Set the key value.")]
NamespaceOption = Annotated[str, Option("-s", "--namespace", help="Set the namespace.")]
BrokerNameOption = Annotated[str, Option("-b", "--brokerName", complete="brokers", help="Broker name.")]


async def get_namesrv_config(admin: Admin) -> None:
    """Get configs of name server."""
    for address, settings in (await admin.nameservers.config()).items():
        line("============%s============", address)
        for key, value in settings.items():
            line("%-50s=  %s", key, value)
        line("")


async def update_namesrv_config(admin: Admin, key: KeyOption, value: ValueOption) -> None:
    """Update configs of name server."""
    await admin.nameservers.update_config({key: value})
    line("update name server config success!%s", [str(link.address) for link in admin.client.nameservers.links])
    line("%s : %s", key, value)


async def update_kv_config(admin: Admin, namespace: NamespaceOption, key: KeyOption, value: ValueOption) -> None:
    """Create or update KV config."""
    await admin.nameservers.put_kv(namespace, key, value)
    line("create or update kv config to namespace success.")


async def delete_kv_config(admin: Admin, namespace: NamespaceOption, key: KeyOption) -> None:
    """Delete KV config."""
    await admin.nameservers.delete_kv(namespace, key)
    line("delete kv config from namespace success.")


async def wipe_write_perm(admin: Admin, broker: BrokerNameOption) -> None:
    """Wipe write perm of broker in all name server you defined in the -n param."""
    for address, count in (await admin.brokers.wipe_write_permission(broker)).items():
        line("wipe write perm of broker[%s] in name server[%s] OK, %d", broker, address, count)


async def add_write_perm(admin: Admin, broker: BrokerNameOption) -> None:
    """Add write perm of broker in all name server you defined in the -n param."""
    for address, count in (await admin.brokers.add_write_permission(broker)).items():
        line("add write perm of broker[%s] in name server[%s] OK, %d", broker, address, count)
