"""A name server that is killed and started again knows its brokers without waiting for their next interval."""

from __future__ import annotations

import time

from pyromq import Admin
from pyromq.testing import ServerProcess

HOUR_MS = 3_600_000  # between registrations: within this test only the end of a connection brings one about


def test_a_restarted_name_server_knows_its_brokers_again() -> None:
    with (
        ServerProcess("nameserver", "--no-metrics") as names,
        ServerProcess(
            *("broker", "--nameserver", names.nameserver, "--no-metrics", "--no-grpc"),
            env={"PYROMQ_BROKER_REGISTER_INTERVAL_MS": str(HOUR_MS)},
        ),
    ):
        with Admin(names.nameserver) as admin:
            admin.topics.create("orders", queues=4)
        names.kill()
        names.start()
        deadline = time.monotonic() + 60
        with Admin(names.nameserver) as admin:
            while "orders" not in admin.topics.names():
                assert time.monotonic() < deadline, "the broker has not registered again"
                time.sleep(0.1)
