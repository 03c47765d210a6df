"""Names that a shell completes: contexts from their file, the others from the cluster, within a second or not at all.

Whatever goes wrong, nothing is written and nothing is offered: a user who presses Tab has asked no question.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from pyromq.cli.connection import DEFAULT_NAMESERVER
from pyromq.cli.contexts import chosen_variables, contexts_file, read_contexts
from pyromq.cli.tls import ConnectionOptions, put_into_environment

if TYPE_CHECKING:
    from pyromq.aio import Admin

_TIMEOUT_S: Final = 1.0
_NAMES_MAX: Final = 500


def completed(kind: str, context: click.Context, incomplete: str) -> list[str]:
    """Names of that kind (topics, groups, brokers, contexts) that begin like this."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        if kind == "contexts":
            found = sorted(read_contexts(contexts_file(os.environ)).by_name)
        else:
            found = _of_cluster(_ASKED[kind], context, incomplete)
    except Exception:  # a shell would print it into the middle of the line that is typed
        return []
    finally:
        logging.disable(before)
    return [name for name in found if name.startswith(incomplete)][:_NAMES_MAX]


def _of_cluster(
    ask: Callable[[Admin, str], Awaitable[list[str]]], context: click.Context, incomplete: str
) -> list[str]:
    from pyromq.aio import Admin

    options = context.find_root().params
    connection = ConnectionOptions(
        **{name: options[name] for name in ConnectionOptions.__dataclass_fields__ if name in options}
    )
    given = {name: value for name, value in connection.variables().items() if value is not None}
    chosen = chosen_variables(str(options.get("named") or ""), os.environ, frozenset(given))
    restore = put_into_environment({**chosen, **given})

    async def work() -> list[str]:
        async with asyncio.timeout(_TIMEOUT_S), Admin(_nameserver(context)) as admin:
            return await ask(admin, incomplete)

    try:
        return asyncio.run(work())
    finally:
        restore()


def _nameserver(context: click.Context) -> str:
    if context.get_parameter_source("nameserver") is ParameterSource.COMMANDLINE:
        return str(context.params["nameserver"])
    return os.environ.get("PYROMQ_NAMESERVER") or os.environ.get("NAMESRV_ADDR") or DEFAULT_NAMESERVER


async def _topics(admin: Admin, incomplete: str) -> list[str]:
    """Those of the system only if that is what is typed."""
    from pyromq.model.system_names import kind_of_topic, names_of_servers

    names = await admin.topics.names()
    info = await admin.brokers.cluster()
    servers = names_of_servers(info.cluster_addr_table, info.broker_addr_table)
    own = [name for name in names if kind_of_topic(name, servers).is_users]
    return own if not incomplete or any(name.startswith(incomplete) for name in own) else names


async def _groups(admin: Admin, incomplete: str) -> list[str]:
    from pyromq.model.system_names import is_system_group

    names = await admin.groups.names()
    own = [name for name in names if not is_system_group(name)]
    return own if not incomplete or any(name.startswith(incomplete) for name in own) else names


async def _brokers(admin: Admin, incomplete: str) -> list[str]:
    return sorted((await admin.brokers.cluster()).broker_addr_table)


_ASKED: Final = {"topics": _topics, "groups": _groups, "brokers": _brokers}
