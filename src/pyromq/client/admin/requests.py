"""All requests of operators and tools over one client, and the directory of whom to send them to."""

from __future__ import annotations

from pyromq.client.admin.access_requests import AccessRequests
from pyromq.client.admin.broker_requests import BrokerRequests
from pyromq.client.admin.directory import BrokerDirectory
from pyromq.client.admin.nameserver_requests import NameServerRequests
from pyromq.client.core.client import Client


class AdminRequests:
    """Requests by whom they are for: brokers by name or address, name servers, servers that keep users."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.nameservers = NameServerRequests(client)
        self.directory = BrokerDirectory(client, self.nameservers)
        self.brokers = BrokerRequests(client, self.directory)
        self.access = AccessRequests(self.brokers, self.nameservers)
