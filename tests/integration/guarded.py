"""A broker and a name server with access control, in this process, and requests signed by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyromq.broker.base.access import GuardedAccess
from pyromq.broker.base.settings import BrokerSettings
from pyromq.security.secret import Secret
from pyromq.security.settings import AccessSettings
from pyromq.security.user_store import UserStore
from pyromq.settings import Credentials
from pyromq.testing import LoopbackBroker
from pyromq.testing.loopback import SMALL_FILES
from pyromq.wire.command import Command
from pyromq.wire.signature import ACCESS_KEY, SIGNATURE, sign
from tests.conftest import CANARY as CANARY_PART
from tests.hostile.rig import Peer
from tests.unit.security.people import secret_of

CANARY = f"{CANARY_PART}-k3y"
ROOT = Credentials("root", CANARY)
_MEMORY = Path("/dev/shm")  # where there is one, syncs cost nothing


def guarded_access(**more: Any) -> AccessSettings:
    return AccessSettings(
        enabled=True,
        initial_user=Secret(f'{{"username":"root","password":"{CANARY}"}}'),
        inner_credentials=Secret(f'{{"accessKey":"inner-broker","secretKey":"inner-{CANARY}"}}'),
        **more,
    )


def guarded_broker(**more: Any) -> LoopbackBroker:
    """Signed requests of root may do everything, all others nothing."""
    return LoopbackBroker(BrokerSettings(store=SMALL_FILES, access=guarded_access()), **more)


@contextmanager
def memory_folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="pyromq-test-", dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        yield Path(folder)


def book_of(broker: LoopbackBroker) -> UserStore:
    access = broker.broker.access
    assert isinstance(access, GuardedAccess)
    return access.guard.book


def signed(ext: dict[str, str], body: bytes, user: str, secret: str | None = None) -> dict[str, str]:
    known = {"root": CANARY, "inner-broker": f"inner-{CANARY}"}
    fields = {**ext, ACCESS_KEY: user}
    return {**fields, SIGNATURE: sign(fields, body, secret or known.get(user) or secret_of(user))}


class Client(Peer):
    """Passes over what the server asks it."""

    async def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", **more: Any) -> Command:
        number = self.send(code, ext, body, **more)
        await self.writer.drain()
        while not ((response := await self.receive()).is_response and response.correlation_id == number):
            pass
        return response


async def ask_as(
    peer: Peer, user: str, code: int, ext: dict[str, str] | None = None, body: bytes = b"", **more: Any
) -> Command:
    """The response to a signed request."""
    return await peer.ask(int(code), signed(ext or {}, body, user), body, **more)
