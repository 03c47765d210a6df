"""Which lease store an address means.

etcd://10.0.0.1:2379,10.0.0.2:2379                     the same as etcd:http://10.0.0.1:2379,http://10.0.0.2:2379
etcd:https://10.0.0.1:2379                             user and password from PYROMQ_ETCD_USER, PYROMQ_ETCD_PASSWORD
postgresql://user@host/database                        password as libpq finds it: PGPASSWORD, .pgpass
kubernetes:                                            of the pod, also kubernetes://
kubernetes:https://host:6443                           from outside
"""

from __future__ import annotations

import os
import re
import ssl
from pathlib import Path

from pyromq.errors import ConfigError
from pyromq.failover.etcd import EtcdLeaseStore
from pyromq.failover.kubernetes import KubernetesLeaseStore
from pyromq.failover.postgres import PostgresLeaseStore
from pyromq.failover.store import LeaseStore


def open_lease_store(address: str, cluster: str, broker: str, *, ca_file: Path | None = None) -> LeaseStore:
    """The lease of that broker name. Raises ConfigError, LeaseError."""
    kind, _, rest = address.partition(":")
    if kind == "etcd":
        if rest.startswith("//"):
            rest = ",".join(f"http://{each}" for each in rest.removeprefix("//").split(",") if each)
        context = ssl.create_default_context(cafile=ca_file) if "https://" in rest else None
        return EtcdLeaseStore(
            [each for each in rest.split(",") if each],
            f"pyromq/leases/{cluster}/{broker}",
            user=os.environ.get("PYROMQ_ETCD_USER", ""),
            password=os.environ.get("PYROMQ_ETCD_PASSWORD", ""),
            context=context,
        )
    if kind in ("postgresql", "postgres"):
        return PostgresLeaseStore(address, f"{cluster}/{broker}")
    if kind == "kubernetes":
        name = re.sub(r"[^a-z0-9.-]+", "-", f"pyromq-{cluster}-{broker}".lower()).strip("-.")
        return KubernetesLeaseStore(name, server=rest.removeprefix("//") if rest == "//" else rest)
    raise ConfigError(f"{address!r} is no lease store; expected etcd:http://…, postgresql://… or kubernetes:")
