"""Names and addresses of a run, before anything is connected."""

from __future__ import annotations

import pytest

from pyromq import App, Credentials
from pyromq.app.run import Run
from pyromq.settings import ClientSettings


def test_the_address_of_the_run_wins_over_that_of_the_app_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYROMQ_NAMESERVER", "10.0.0.3:9876")

    def address(app: App, given: str = "") -> object:
        return Run(app, given)._new_client(stable=False).settings.nameservers

    assert address(App()) == ("10.0.0.3:9876",)
    assert address(App("10.0.0.2:9876")) == ("10.0.0.2:9876",)
    assert address(App("10.0.0.2:9876"), "10.0.0.1:9876") == ("10.0.0.1:9876",)
    settings = ClientSettings(nameservers="10.0.0.4:9876", heartbeat_ms=77)
    assert address(App(client_settings=settings)) == ("10.0.0.4:9876",)
    assert address(App(client_settings=settings), "10.0.0.1:9876") == ("10.0.0.1:9876",)


def test_options_of_clients_reach_them() -> None:
    credentials = Credentials("key", "secret")
    app = App(credentials=credentials, namespace="test", client_settings=ClientSettings(heartbeat_ms=77))
    settings = Run(app)._new_client(stable=False).settings
    assert (settings.credentials, settings.namespace, settings.heartbeat_ms) == (credentials, "test", 77)


def test_members_of_clustering_groups_are_new_each_time_and_broadcasting_ones_last() -> None:
    run = Run(App(name="shop"), instance="2")
    assert run._new_client(stable=False).id != run._new_client(stable=False).id
    assert run._new_client(stable=True).settings.instance_name == "shop-2"
    assert run._new_client(stable=True).id == run._new_client(stable=True).id
    assert Run(App(), instance="2")._new_client(stable=True).settings.instance_name == "pyromq-app-2"


def test_a_name_that_was_given_has_the_number_of_the_worker() -> None:
    run = Run(App(instance_name="mine"), instance="3")
    assert {run._new_client(stable=stable).settings.instance_name for stable in (False, True)} == {"mine-3"}
    assert Run(App(instance_name="mine"))._new_client(stable=False).settings.instance_name == "mine"
