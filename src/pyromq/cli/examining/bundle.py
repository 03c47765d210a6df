"""What ``pyromq doctor --bundle`` packs for somebody who helps from afar: facts of a cluster, without secrets.

No message and no body is read. Values of settings whose name speaks of a secret are left out, and so is what stands
before the @ of an address; ``(removed)`` in their place says that something was set. What is not answered is in
``not-answered.json`` with the reason: a bundle of a sick cluster is the one that is needed.
"""

from __future__ import annotations

import io
import platform
import re
import sys
import tarfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyromq.errors import MQError

if TYPE_CHECKING:
    from pyromq.aio import Admin, QueueId

NAMED_MAX: Final = 1_000  # topics and groups that are described one by one; all of them are listed
REMOVED: Final = "(removed)"
_SECRET_WORDS: Final = re.compile(r"secret|passw|token|credential|access_?key|private_?key", re.IGNORECASE)
_BEFORE_AT: Final = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def without_secrets(value: Any) -> Any:
    """Copy plain values with ``(removed)`` where a secret stood."""
    if isinstance(value, Mapping):
        return {
            str(key): REMOVED if _SECRET_WORDS.search(str(key)) and each not in ("", None) else without_secrets(each)
            for key, each in value.items()
        }
    if isinstance(value, str):
        return _BEFORE_AT.sub(REMOVED, value)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [without_secrets(each) for each in value]
    return value


class Bundle:
    """Files by name, and what could not be asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self._unanswered: dict[str, str] = {}

    def add(self, name: str, value: Any) -> None:
        plain = without_secrets(_plain(value))
        self.files[f"{name}.json"] = msgspec.json.format(msgspec.json.encode(plain, order="sorted")) + b"\n"

    async def ask(self, name: str, question: Callable[[], Awaitable[Any]]) -> Any:
        """The answer, which is also a file; None when there is none."""
        answer = await self.look(name, question)
        if answer is not None:
            self.add(name, answer)
        return answer

    async def look(self, name: str, question: Callable[[], Awaitable[Any]]) -> Any:
        """The answer, which is no file; None when there is none."""
        try:
            return await question()
        except MQError as error:
            self._unanswered[name] = f"{type(error).__name__}: {error}"
            return None

    def write(self, path: Path) -> None:
        """All or nothing at that place. Raises OSError."""
        if self._unanswered:
            self.add("not-answered", self._unanswered)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for name, content in sorted(self.files.items()):
                entry = tarfile.TarInfo(f"pyromq-bundle/{name}")
                entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
                archive.addfile(entry, io.BytesIO(content))
        beside = path.with_name(f"{path.name}.part")
        beside.touch(mode=0o600)
        beside.write_bytes(packed.getvalue())
        beside.replace(path)


async def collect(admin: Admin, nameserver: str) -> Bundle:
    """Everything that admin requests say, of our brokers or Apache's."""
    bundle = Bundle()
    bundle.add("about", _about(nameserver))
    await bundle.ask("findings", admin.health.findings)
    cluster = await bundle.ask("cluster", admin.brokers.cluster)
    for name, broker in sorted(cluster.broker_addr_table.items()) if cluster else ():
        for number, address in sorted(broker.broker_addrs.items()):
            await bundle.ask(f"brokers/{name}-{number}/run-time", partial(admin.brokers.runtime, address))
            await bundle.ask(f"brokers/{name}-{number}/settings", partial(admin.brokers.config, address))
    await _collect_topics(bundle, admin)
    await _collect_groups(bundle, admin)
    return bundle


async def _collect_topics(bundle: Bundle, admin: Admin) -> None:
    names = await bundle.look("topics", admin.topics.names) or []
    described = {}
    for name in names[:NAMED_MAX]:
        configs = await bundle.look(f"topic {name}", partial(admin.topics.config, name))
        queues = await bundle.look(f"queues of {name}", partial(admin.topics.stats, name)) or {}
        ranges = {_named(queue): each for queue, each in queues.items()}
        described[name] = {"settings": configs, "queues": ranges}
    bundle.add("topics", {"count": len(names), "described": described, "others": names[NAMED_MAX:]})


async def _collect_groups(bundle: Bundle, admin: Admin) -> None:
    names = await bundle.look("groups", admin.groups.names) or []
    described = {}
    for name in names[:NAMED_MAX]:
        config = await bundle.look(f"group {name}", partial(admin.groups.config, name))
        lag = await bundle.look(f"lag of {name}", partial(admin.groups.lag, name)) or {}
        members = await bundle.look(f"members of {name}", partial(admin.members.connections, name))
        progress = {_named(queue): each for queue, each in lag.items()}
        described[name] = {"settings": config, "progress": progress, "members": members}
    bundle.add("groups", {"count": len(names), "described": described, "others": names[NAMED_MAX:]})


def _named(queue: QueueId) -> str:
    return f"{queue.topic}@{queue.broker}:{queue.number}"


def _about(nameserver: str) -> dict[str, Any]:
    return {
        "pyromq": metadata.version("pyromq"),
        "python": sys.version,
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in ("msgspec", "uvloop", "zlib-ng", "lz4", "zstandard", "pyspark")},
        "nameserver": nameserver,
        "collected_at_s": int(time.time()),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _plain(value: Any) -> Any:
    """Values that JSON knows: of dataclasses and structs their fields."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    return msgspec.to_builtins(value, str_keys=True, enc_hook=str)
