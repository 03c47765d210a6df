"""``pyromq up`` as a user starts it."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from pyromq.store.check import StoreVerdict, check_store
from pyromq.testing import ServerProcess, ServerProcessError

pytestmark = pytest.mark.integration


def test_it_says_when_it_is_ready_and_where(tmp_path: Path) -> None:
    with ServerProcess("up", data=tmp_path) as server:
        address = r"127\.0\.0\.1:\d+"
        line = rf"ready nameserver={address} broker={address} grpc={address} metrics=http://{address}/metrics\n"
        assert re.fullmatch(line, server.output)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with ServerProcess("up", data=tmp_path / "data") as server:
        server.signal(number)
        assert server.wait(15) == 0
    assert not (tmp_path / "data" / "abort").exists()
    assert check_store(tmp_path / "data").verdict is StoreVerdict.SOUND


def test_a_second_one_on_the_same_folder_is_refused_clearly(tmp_path: Path) -> None:
    text = r"ended with 3(?s:.)*is in use by another process; stop it, or choose another data folder"
    with ServerProcess("up", data=tmp_path), pytest.raises(ServerProcessError, match=text):
        ServerProcess("up", data=tmp_path).start()


def test_a_taken_port_is_refused_clearly(tmp_path: Path) -> None:
    with ServerProcess("up", data=tmp_path / "one") as server:
        port = server.broker.rpartition(":")[2]
        with pytest.raises(ServerProcessError, match=rf"ended with 1(?s:.)*cannot listen on 127\.0\.0\.1:{port}"):
            ServerProcess("up", "--broker-port", port, data=tmp_path / "two").start()
