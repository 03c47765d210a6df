"""Other doors than producers and consumers: pipeline, outbox, environment, command line."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import Admin, Message, Producer
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.cli.main import main
from pyromq.errors import ConfigError, NoPermissionError
from pyromq.outbox import Outbox, OutboxProducer
from pyromq.pipeline.core.connections import close_all
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.reading.cluster import Cluster
from pyromq.security.requests import ACCESS_CODES
from pyromq.security.secret import Secret
from pyromq.security.settings import AccessSettings
from pyromq.settings import ClientSettings, Credentials
from pyromq.testing import LoopbackBroker
from pyromq.testing.loopback import SMALL_FILES
from pyromq.wire.codes import ResponseCode
from tests.hostile.rig import Peer
from tests.integration.guarded import ROOT, guarded_broker
from tests.integration.waiting import until_on_thread
from tests.unit.security.people import secret_of

pytestmark = pytest.mark.integration

PIPE = Credentials("pipe-user", secret_of("pipe-user"))


@pytest.fixture
def broker() -> Iterator[LoopbackBroker]:
    with guarded_broker() as running:
        with Admin(running.nameserver, credentials=ROOT) as admin:
            admin.topics.create("orders", queues=2)
            admin.access.create_user(PIPE.access_key, PIPE.secret_key)
            admin.access.apply_template(PIPE.access_key, "pipeline", topics=["orders"], groups=["pipe"])
        with Producer(running.nameserver, group="filler", credentials=ROOT) as producer:
            producer.send(Message("orders", b"1"))
        yield running
        close_all()


def options(broker: LoopbackBroker, user: Credentials, **more: object) -> SourceOptions:
    given = {"nameserver": broker.nameserver, "topics": ("orders",), "retry_ms": 2_000, **more}
    return SourceOptions(access_key=user.access_key, secret_key=user.secret_key, **given)  # type: ignore[arg-type]


def test_the_driver_of_a_pipeline_has_the_rights_of_its_template(broker: LoopbackBroker) -> None:
    reading = Cluster(options(broker, PIPE, group="pipe"))
    held = reading.held()
    assert len(held) == 2
    reading.commit(dict.fromkeys(held, 0))
    with pytest.raises(NoPermissionError):
        Cluster(options(broker, PIPE, topics=("payments",))).held()


def test_an_outbox_signs(broker: LoopbackBroker, tmp_path: Path) -> None:
    outbox = Outbox(str(tmp_path / "shop.db"))
    with OutboxProducer(broker.nameserver, group="shop", topics="orders", outbox=outbox, credentials=PIPE) as producer:
        with producer.transaction(Message("orders", b"from the outbox")) as connection:
            connection.execute("CREATE TABLE things (id INTEGER)")
    with pytest.raises(NoPermissionError), OutboxProducer(
        broker.nameserver, group="shop", topics="payments", outbox=outbox, credentials=PIPE
    ) as producer, producer.transaction(Message("payments", b"no")):  # fmt: skip
        pass


def test_credentials_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYROMQ_ACCESS_KEY", "shop")
    with pytest.raises(ConfigError, match="PYROMQ_SECRET_KEY"):
        ClientSettings()
    monkeypatch.setenv("PYROMQ_SECRET_KEY_FILE", str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match="cannot be read"):
        ClientSettings()
    (tmp_path / "missing").write_text("the secret\nand more\n")
    assert ClientSettings().credentials == Credentials("shop", "the secret")
    monkeypatch.setenv("PYROMQ_SECRET_KEY", "another")
    assert ClientSettings().credentials == Credentials("shop", "another")
    own = Credentials("own", "own secret")
    assert ClientSettings(credentials=own).credentials == own


def test_the_command_line_manages_users(
    broker: LoopbackBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYROMQ_NAMESERVER", broker.nameserver)
    (tmp_path / "root.key").write_text(ROOT.secret_key)
    (tmp_path / "new.key").write_text(secret_of("cleo"))

    def run(*words: str) -> tuple[int, str]:
        code = main(["--access-key", "root", "--secret-key-file", str(tmp_path / "root.key"), *words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    assert run("acl", "user", "create", "cleo", "--password-file", str(tmp_path / "new.key"))[0] == 0
    code, text = run("acl", "user", "create", "cleo", "--password-file", str(tmp_path / "new.key"))
    assert code == 3 and "existed" in text
    assert run("acl", "policy", "set", "cleo", "Topic:order*", "Pub,Sub", "--from", "127.0.0.0/8")[0] == 0
    assert run("acl", "policy", "set", "cleo", "Topic:orders-old", "All", "--deny")[0] == 0
    code, text = run("acl", "test", "cleo", "Pub", "Topic:orders")
    assert code == 0 and "Allow Pub,Sub on Topic:order* from 127.0.0.0/8" in text
    code, text = run("acl", "test", "cleo", "Pub", "Topic:orders", "--from", "10.0.0.1")
    assert code == 3 and "no entry" in text
    code, text = run("acl", "test", "cleo", "Pub", "Topic:orders-old")
    assert code == 3 and "Deny All on Topic:orders-old" in text
    assert run("acl", "test", "nobody", "Pub", "Topic:orders")[0] == 2
    assert run("acl", "test", "cleo", "Publish", "Topic:orders")[0] == 1
    assert run("acl", "test", "cleo", "Pub", "orders")[0] == 1
    code, text = run("acl", "policy", "ls", "--user", "cleo")
    assert text.count("cleo") == 2
    assert run("acl", "user", "update", "cleo")[0] == 1
    assert run("acl", "user", "update", "cleo", "--disable")[0] == 0
    assert '"disable"' in run("acl", "user", "ls")[1]
    assert run("acl", "policy", "delete", "cleo", "Topic:order*")[0] == 0
    assert run("acl", "policy", "delete", "cleo", "--yes")[0] == 0
    assert run("acl", "user", "delete", "cleo", "--yes")[0] == 0
    assert run("acl", "user", "delete", "cleo", "--yes")[0] == 2
    plain = tmp_path / "plain_acl.yml"
    plain.write_text("accounts: [{accessKey: old-user, secretKey: old-secret, topicPerms: [orders=PUB]}]")
    assert run("acl", "import", str(plain))[0] == 0
    assert run("acl", "test", "old-user", "Pub", "Topic:orders")[0] == 0
    plain.write_text("globalWhiteRemoteAddresses: [10.0.0.*]")
    code, text = run("acl", "import", str(plain))
    assert code == 5 and "left out" in text
    assert main(["topic", "ls"]) == 3, "unsigned"
    capsys.readouterr()


# --- how servers start ---


def test_a_server_that_could_verify_nobody_does_not_start_and_leaves_its_folder(tmp_path: Path) -> None:
    first = Secret('{"username": "root", "password": "root-secret"}')
    for access in (
        AccessSettings(enabled=True),
        AccessSettings(enabled=True, initial_user=first, validators=()),
        AccessSettings(enabled=True, initial_user=first, validators=("no.such:thing",)),
        AccessSettings(enabled=True, initial_user=first, plain_acl_file=tmp_path / "none", follow_plain_acl=True),
    ):
        settings = BrokerSettings(store=SMALL_FILES, port=0, access=access)
        broker = Broker(settings, tmp_path / "data")
        with pytest.raises(ConfigError):
            asyncio.run(broker.start())
    with LoopbackBroker(folder=tmp_path / "data") as running:
        assert running.address, "the folder is not locked"


def test_accounts_of_a_followed_file_come_and_go_while_servers_run(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text("accounts: [{accessKey: first-admin, secretKey: first-secret, admin: true}]")
    access = AccessSettings(enabled=True, plain_acl_file=path, follow_plain_acl=True)
    with LoopbackBroker(BrokerSettings(store=SMALL_FILES, access=access)) as running:

        def may(user: str, secret: str) -> bool:
            with Admin(client_settings=ClientSettings(credentials=Credentials(user, secret))) as admin:
                try:
                    return bool(admin.brokers.config(running.address))
                except NoPermissionError:
                    return False

        assert may("first-admin", "first-secret")
        path.write_text("accounts: [{accessKey: second-admin, secretKey: second-secret, admin: true}]")
        until_on_thread(lambda: may("second-admin", "second-secret"), "the new account is known")
        assert not may("first-admin", "first-secret")
    kept = [each.read_text() for each in tmp_path.rglob("*access.json*")]
    assert not [text for text in kept if "second-secret" in text], "accounts of others are not copied"


def test_without_access_control_no_users_are_planted(tmp_path: Path) -> None:
    """Else they would be there on the day when it is switched on."""
    asyncio.run(try_to_plant_users(tmp_path))
    assert not list(tmp_path.rglob("*access*"))


async def try_to_plant_users(folder: Path) -> None:
    user = b'{"password": "planted-secret", "userType": "Super"}'
    async with LoopbackBroker(folder=folder) as running:
        for address in (running.address, running.nameserver):
            async with Peer(address) as peer:
                for code in ACCESS_CODES:
                    fields = {"username": "planted", "subject": "User:planted", "policyType": "Custom", "resource": ""}
                    refused = await peer.ask(code, fields, user)
                    assert refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
                    assert "access control is off" in (refused.remark or "")
