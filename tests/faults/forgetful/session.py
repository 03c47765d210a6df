"""One mount of a volume: answers what the kernel asks, until it is unmounted or the power is lost."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from typing import Final

from tests.faults.forgetful import protocol as fuse
from tests.faults.forgetful.protocol import Op
from tests.faults.forgetful.volume import PAGE, ROOT, Node, Resize, Volume, Write

_VALID_S: Final = 3600  # nobody but the kernel changes anything
_DISK_BYTES: Final = 8 << 30


class NotAnsweredError(Exception):
    """The kernel wants no response."""


class FuseSession:
    """Requests in, responses out; no I/O."""

    def __init__(self, volume: Volume) -> None:
        self.volume = volume
        self.is_dead = False  # without power every request fails
        self.requests = 0
        self._handlers: dict[int, Callable[[int, memoryview], bytes]] = {
            Op.INIT: self._init,
            Op.LOOKUP: self._look_up,
            Op.FORGET: self._forget,
            Op.BATCH_FORGET: self._forget_many,
            Op.GETATTR: self._attributes,
            Op.SETATTR: self._set_attributes,
            Op.MKNOD: self._make_file,
            Op.MKDIR: self._make_folder,
            Op.UNLINK: self._remove,
            Op.RMDIR: self._remove,
            Op.RENAME: self._rename,
            Op.LINK: self._link,
            Op.READ: self._read,
            Op.WRITE: self._write,
            Op.STATFS: self._statistics,
            Op.FSYNC: self._flush,
            Op.FSYNCDIR: self._flush_folder,
            Op.READDIR: self._list,
            Op.FALLOCATE: self._allocate,
            Op.LSEEK: self._seek,
            Op.INTERRUPT: self._ignore,
            Op.DESTROY: lambda node, body: b"",
        }

    def answer(self, request: bytes) -> bytes | None:
        """The response to a request; None where none is wanted."""
        self.requests += 1
        _, opcode, unique, node, *_ = fuse.REQUEST.unpack_from(request)
        handler = self._handlers.get(opcode)
        try:
            if handler is None:
                raise OSError(errno.ENOSYS, "not spoken")
            if self.is_dead and opcode not in (Op.FORGET, Op.BATCH_FORGET, Op.DESTROY, Op.INTERRUPT):
                raise OSError(errno.EIO, "no power")
            body = handler(node, memoryview(request)[fuse.REQUEST.size :])
        except NotAnsweredError:
            return None
        except OSError as error:
            return fuse.RESPONSE.pack(fuse.RESPONSE.size, -(error.errno or errno.EIO), unique)
        return fuse.RESPONSE.pack(fuse.RESPONSE.size + len(body), 0, unique) + body

    # --- the session ---

    def _init(self, node: int, body: memoryview) -> bytes:
        _, _, ahead, flags = fuse.INIT_IN.unpack_from(body)
        pages = fuse.WRITE_MAX // PAGE
        return fuse.INIT_OUT.pack(*fuse.VERSION, ahead, flags & fuse.FLAGS, 16, 12, fuse.WRITE_MAX, 1, pages, 0)

    def _ignore(self, node: int, body: memoryview) -> bytes:
        raise NotAnsweredError

    def _forget(self, node: int, body: memoryview) -> bytes:
        self._give_back(node, fuse.FORGET.unpack_from(body)[0])
        raise NotAnsweredError

    def _forget_many(self, node: int, body: memoryview) -> bytes:
        count, _ = fuse.BATCH_FORGET.unpack_from(body)
        places = range(fuse.BATCH_FORGET.size, fuse.BATCH_FORGET.size + count * fuse.FORGET_ONE.size, 16)
        for at in places:
            self._give_back(*fuse.FORGET_ONE.unpack_from(body, at))
        raise NotAnsweredError

    def _give_back(self, number: int, count: int) -> None:
        if (node := self.volume.nodes.get(number)) is not None:
            node.lookups -= count

    # --- names ---

    def _look_up(self, folder: int, body: memoryview) -> bytes:
        return self._entry(self.volume.look_up(folder, _names(body)[0]))

    def _make_file(self, folder: int, body: memoryview) -> bytes:
        mode = fuse.MAKE_NODE.unpack_from(body)[0]
        return self._entry(self.volume.make(folder, _names(body[fuse.MAKE_NODE.size :])[0], mode))

    def _make_folder(self, folder: int, body: memoryview) -> bytes:
        mode = fuse.MAKE_FOLDER.unpack_from(body)[0]
        return self._entry(self.volume.make(folder, _names(body[fuse.MAKE_FOLDER.size :])[0], stat.S_IFDIR | mode))

    def _remove(self, folder: int, body: memoryview) -> bytes:
        self.volume.remove(folder, _names(body)[0])
        return b""

    def _rename(self, folder: int, body: memoryview) -> bytes:
        to_folder = fuse.RENAME.unpack_from(body)[0]
        old, new = _names(body[fuse.RENAME.size :])
        self.volume.rename(folder, old, to_folder, new)
        return b""

    def _link(self, folder: int, body: memoryview) -> bytes:
        number = fuse.LINK.unpack_from(body)[0]
        return self._entry(self.volume.link(number, folder, _names(body[fuse.LINK.size :])[0]))

    def _list(self, folder: int, body: memoryview) -> bytes:
        _, offset, size, *_ = fuse.TRANSFER.unpack_from(body)
        node, found, length = self.volume.node(folder), [], 0
        listed = [(b".", folder), (b"..", ROOT), *node.entries.items()]
        for place, (name, number) in enumerate(listed[offset:], offset + 1):
            entry = fuse.directory_entry(number, place, self.volume.node(number).mode, name)
            length += len(entry)
            if length > size:
                break
            found.append(entry)
        return b"".join(found)

    def _entry(self, node: Node) -> bytes:
        node.lookups += 1
        return fuse.ENTRY.pack(node.number, 0, _VALID_S, _VALID_S, 0, 0) + self._attributes_of(node)

    # --- attributes ---

    def _attributes_of(self, node: Node) -> bytes:
        seconds, nanoseconds = divmod(node.modified_ns, 1_000_000_000)
        links = 2 if node.is_folder else self.volume.links_to(node.number)
        return fuse.ATTRIBUTES.pack(
            *(node.number, node.seen.size, len(node.seen.pages) * PAGE // 512),
            *(seconds, seconds, seconds, nanoseconds, nanoseconds, nanoseconds),
            *(node.mode, links, os.getuid(), os.getgid(), 0, PAGE, 0),
        )

    def _attributes(self, number: int, body: memoryview) -> bytes:
        return fuse.ATTRIBUTES_FOR.pack(0, 0, 0) + self._attributes_of(self.volume.node(number))

    def _set_attributes(self, number: int, body: memoryview) -> bytes:
        valid, _, _, size, _, _, mtime, _, _, mtime_ns, _, mode, *_ = fuse.SET_ATTRIBUTES.unpack_from(body)
        node = self.volume.node(number)
        if valid & fuse.SET_MODE:
            node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)
        if valid & fuse.SET_SIZE:
            node.change(Resize(size))
        if valid & fuse.SET_MTIME_NOW:
            node.modified_ns = time.time_ns()
        elif valid & fuse.SET_MTIME:
            node.modified_ns = mtime * 1_000_000_000 + mtime_ns
        return self._attributes(number, body)

    def _statistics(self, number: int, body: memoryview) -> bytes:
        blocks = _DISK_BYTES // PAGE
        free = blocks - self.volume.used_bytes() // PAGE
        return fuse.STATISTICS.pack(blocks, free, free, 1 << 20, 1 << 20, PAGE, 255, PAGE, 0)

    # --- bytes ---

    def _read(self, number: int, body: memoryview) -> bytes:
        _, offset, size, *_ = fuse.TRANSFER.unpack_from(body)
        return self.volume.node(number).seen.read(offset, size)

    def _write(self, number: int, body: memoryview) -> bytes:
        _, offset, size, *_ = fuse.TRANSFER.unpack_from(body)
        data = bytes(body[fuse.TRANSFER.size : fuse.TRANSFER.size + size])
        self.volume.node(number).change(Write(offset, data))
        return fuse.WRITTEN.pack(size, 0)

    def _allocate(self, number: int, body: memoryview) -> bytes:
        _, offset, length, mode, _ = fuse.ALLOCATE.unpack_from(body)
        node = self.volume.node(number)
        if mode:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        if offset + length > node.seen.size:
            node.change(Resize(offset + length))
        return b""

    def _seek(self, number: int, body: memoryview) -> bytes:
        _, offset, whence, _ = fuse.SEEK.unpack_from(body)
        seen = self.volume.node(number).seen
        return fuse.SEEK_OUT.pack(seen.next_data(offset) if whence == os.SEEK_DATA else seen.next_hole(offset))

    def _flush(self, number: int, body: memoryview) -> bytes:
        self.volume.node(number).flush()
        return b""

    def _flush_folder(self, number: int, body: memoryview) -> bytes:
        self.volume.sync_folder(number)
        return b""


def _names(body: memoryview) -> list[bytes]:
    """One name, or two, each with a zero behind it."""
    return bytes(body).split(b"\0")[:-1]
