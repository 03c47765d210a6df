"""mqadmin's sub-commands about name servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pyromq.cli.connection import DEFAULT_NAMESERVER, with_admin
from pyromq.cli.declared import Option
from pyromq.cli.mqadmin.options import NamesrvOption
from pyromq.cli.mqadmin.printing import line

if TYPE_CHECKING:
    from pyromq.aio import Admin

KeyOption = Annotated[str, Option("-k", "--key", help="Set the key name.")]
ValueOption = Annotated[str, Option("-v", "--value", help="Set the key value.")]
NamespaceOption = Annotated[str, Option("-s", "--namespace", help="Set the namespace.")]
BrokerNameOption = Annotated[str, Option("-b", "--brokerName", complete="brokers", help="Broker name.")]


def get_namesrv_config(namesrv: NamesrvOption = DEFAULT_NAMESERVER) -> None:
    """Get configs of name server."""
    for address, settings in with_admin(namesrv, lambda admin: admin.nameservers.config()).items():
        line("============%s============", address)
        for key, value in settings.items():
            line("%-50s=  %s", key, value)
        line("")


def update_namesrv_config(key: KeyOption, value: ValueOption, namesrv: NamesrvOption = DEFAULT_NAMESERVER) -> None:
    """Update configs of name server."""

    async def work(admin: Admin) -> None:
        await admin.nameservers.update_config({key: value})
        line("update name server config success!%s", [str(link.address) for link in admin.client.nameservers.links])
        line("%s : %s", key, value)

    with_admin(namesrv, work)


def update_kv_config(
    namespace: NamespaceOption, key: KeyOption, value: ValueOption, namesrv: NamesrvOption = DEFAULT_NAMESERVER
) -> None:
    """Create or update KV config."""
    with_admin(namesrv, lambda admin: admin.nameservers.put_kv(namespace, key, value))
    line("create or update kv config to namespace success.")


def delete_kv_config(namespace: NamespaceOption, key: KeyOption, namesrv: NamesrvOption = DEFAULT_NAMESERVER) -> None:
    """Delete KV config."""
    with_admin(namesrv, lambda admin: admin.nameservers.delete_kv(namespace, key))
    line("delete kv config from namespace success.")


def wipe_write_perm(broker: BrokerNameOption, namesrv: NamesrvOption = DEFAULT_NAMESERVER) -> None:
    """Wipe write perm of broker in all name server you defined in the -n param."""
    for address, count in with_admin(namesrv, lambda admin: admin.brokers.wipe_write_permission(broker)).items():
        line("wipe write perm of broker[%s] in name server[%s] OK, %d", broker, address, count)


def add_write_perm(broker: BrokerNameOption, namesrv: NamesrvOption = DEFAULT_NAMESERVER) -> None:
    """Add write perm of broker in all name server you defined in the -n param."""
    for address, count in with_admin(namesrv, lambda admin: admin.brokers.add_write_permission(broker)).items():
        line("add write perm of broker[%s] in name server[%s] OK, %d", broker, address, count)
