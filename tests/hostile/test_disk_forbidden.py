"""A disk that may not be written any more, for real: a file system that turned read-only, and rights that were taken.

Sends are refused with the reason, reads go on, and after a restart on a good disk everything acknowledged is there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyromq.wire.codes import RequestCode, ResponseCode
from tests.hostile.every_request import request_of
from tests.hostile.rig import Peer, Victim, beside_honest_client, count, victim
from tests.hostile.test_store_taken_away import pull, send, settings_file, until_refused

pytestmark = pytest.mark.integration

UNAVAILABLE = int(ResponseCode.SERVICE_NOT_AVAILABLE)
IMAGE_BYTES = 256 << 20
Record = Callable[[str, object], None]


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system of our own here ({command[0]}: {done.stderr.strip()[-200:]})")


@contextmanager
def own_file_system(folder: Path) -> Iterator[Path]:
    """ext4 in a file, mounted; skips where that is not allowed."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("mounting needs root and mkfs.ext4: no file system was turned read-only")
    image, mounted = folder / "disk.ext4", folder / "disk"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    run("mkfs.ext4", "-q", "-F", str(image))
    run("mount", "-o", "loop", str(image), str(mounted))
    try:
        yield mounted
    finally:
        subprocess.run(["umount", "--lazy", str(mounted)], check=False, capture_output=True)


async def holds(server: Victim, acknowledged: int) -> None:
    """Queue 0 has at least as many messages as were acknowledged."""
    async with Peer(server.broker) as peer:
        told = await peer.ask(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"})
        assert told.code == 0 and int(told.ext["offset"]) >= acknowledged, told


async def test_a_file_system_that_turns_read_only_costs_nothing_that_was_acknowledged(
    tmp_path: Path, record_property: Record
) -> None:
    with own_file_system(tmp_path) as disk:
        flags = ("--config", settings_file(tmp_path))
        acknowledged = 0
        for _ in range(count(1, 5)):
            server = Victim(tmp_path / "v", *flags, data=disk / "data")
            await server.start()
            try:
                async with Peer(server.broker) as peer:
                    for _ in range(50):
                        assert await send(peer) == 0
                    acknowledged += 50
                    run("mount", "-o", "remount,abort", str(disk))  # what the kernel does after an error of the disk
                    acknowledged += await until_refused(peer)
                    assert await send(peer) == UNAVAILABLE
                    assert await pull(peer) == 0
                    fields, body = request_of(RequestCode.UPDATE_AND_CREATE_TOPIC, "new", "readers")
                    refused = await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields, body)
                    assert refused.code == UNAVAILABLE and "could not be saved" in (refused.remark or "")
            finally:
                await server.kill()
            assert "ERROR" in server.log and "Traceback" not in server.log
            run("umount", str(disk))
            run("mount", "-o", "loop", str(disk.with_suffix(".ext4")), str(disk))
            server = Victim(tmp_path / "v", *flags, data=disk / "data")
            await server.start()
            try:
                name = "a broker whose file system turned read-only, started again"
                async with beside_honest_client(server, name, 1, record_property):
                    await holds(server, acknowledged)
            finally:
                await server.kill()


async def test_a_folder_without_rights_refuses_sends_until_it_has_them_again(
    tmp_path: Path, record_property: Record
) -> None:
    under: tuple[str, ...] = ()
    if os.geteuid() == 0:  # root may write everywhere, unless it gives up that right
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv is not installed (util-linux): root cannot be kept out of a folder")
        under = ("setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner", "--")
    flags = ("--config", settings_file(tmp_path))
    folder = tmp_path / "v"
    async with victim(folder, *flags, under=under) as server:
        async with Peer(server.broker) as peer:
            assert await send(peer) == 0
            folders = [path for path in server.data.rglob("*") if path.is_dir()]
            try:
                for path in folders:
                    path.chmod(0o500)
                acknowledged = 1 + await until_refused(peer)
                assert await send(peer) == UNAVAILABLE and await pull(peer) == 0
                fields, body = request_of(RequestCode.UPDATE_AND_CREATE_TOPIC, "new", "readers")
                refused = await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields, body)
                assert refused.code == UNAVAILABLE and "Permission denied" in (refused.remark or "")
            finally:
                for path in folders:
                    path.chmod(0o700)
        assert "Permission denied" in server.log and "Traceback" not in server.log
    async with victim(folder, *flags, under=under) as server:
        name = "a broker that had no rights to its folder, started again"
        async with beside_honest_client(server, name, 1, record_property), Peer(server.broker) as peer:
            await holds(server, acknowledged)
            assert await send(peer) == 0
