"""``pyromq failover``: the agent beside a broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pyromq.cli.connection import LeaseStoreCaOption, LeaseStoreOption
from pyromq.cli.declared import Option
from pyromq.cli.servers.commands import log_to_stderr
from pyromq.cli.servers.options import LogFormat, LogFormatOption


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverFlags:
    """Where the broker and the lease are, and how long a lease lasts."""

    store: LeaseStoreOption = ""
    store_ca: LeaseStoreCaOption = None
    broker: Annotated[str, Option("--broker", metavar="HOST:PORT", help="The broker, on this machine.")] = (
        "127.0.0.1:10911"
    )
    lease: Annotated[
        float,
        Option(
            "--lease", metavar="SECONDS", help="A master that is silent for so long loses its place; all agents alike."
        ),
    ] = 4.0
    alone_after: Annotated[
        float,
        Option(
            "--alone-after",
            metavar="SECONDS",
            help="Of two members: go on without the other, if after a restart it does not answer for so long.",
        ),
    ] = 30.0
    hand_over: Annotated[
        bool,
        Option("--hand-over/--keep", help="When it is stopped: make a member in sync the master first, or do not."),
    ] = True
    log: Annotated[
        str,
        Option("--log", metavar="LEVEL", help="Least level logged to stderr: debug, info, warning or error."),
    ] = "info"
    log_format: LogFormatOption = LogFormat.TEXT


def failover(*, flags: FailoverFlags) -> None:
    """Run the failover agent of one broker. A lease in a store that others run says who is master."""
    log_to_stderr(flags.log, flags.log_format)
    from pyromq.errors import ConfigError
    from pyromq.failover.sight import Timing
    from pyromq.net.address import Address
    from pyromq.standalone import run_failover

    if not flags.store:
        raise ConfigError("where are leases kept? Give --store URL, or PYROMQ_LEASE_STORE")
    run_failover(
        flags.store,
        str(Address.parse(flags.broker)),
        Timing.of(flags.lease, flags.alone_after),
        ca_file=flags.store_ca,
        hands_over=flags.hand_over,
    )
