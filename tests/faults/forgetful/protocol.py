"""The kernel's side of FUSE 7.31: requests that come over /dev/fuse, and responses (include/uapi/linux/fuse.h).

    request     length u32  opcode u32  unique u64  node u64  uid u32  gid u32  pid u32  –      40 bytes, then a body
    response    length u32  error i32   unique u64                                              16 bytes, then a body

Only what a store uses is spoken: what is answered ENOSYS the kernel does by itself, or does without.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

VERSION: Final = (7, 31)
WRITE_MAX: Final = 1 << 17
BUFFER: Final = WRITE_MAX + (1 << 12)
BIG_WRITES, NO_OPEN, MAX_PAGES, NO_OPENDIR = 1 << 5, 1 << 17, 1 << 22, 1 << 24
FLAGS: Final = BIG_WRITES | NO_OPEN | MAX_PAGES | NO_OPENDIR
"""No writeback cache: a write reaches us before it returns. Locks stay in the kernel."""


class Op(IntEnum):
    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    READ = 15
    WRITE = 16
    STATFS = 17
    FSYNC = 20
    INIT = 26
    READDIR = 28
    FSYNCDIR = 30
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42
    FALLOCATE = 43
    LSEEK = 46


REQUEST: Final = Struct("<IIQQIIII")
RESPONSE: Final = Struct("<IiQ")
ATTRIBUTES: Final = Struct("<QQQQQQIIIIIIIIII")
ENTRY: Final = Struct("<QQQQII")  # node, generation, how long both are valid; attributes follow
ATTRIBUTES_FOR: Final = Struct("<QII")  # how long they are valid; they follow
INIT_IN: Final = Struct("<IIII")
INIT_OUT: Final = Struct("<IIIIHHIIHH32x")
SET_ATTRIBUTES: Final = Struct("<II QQQ QQQ III IIIII")
MAKE_NODE: Final = Struct("<IIII")
MAKE_FOLDER: Final = Struct("<II")
RENAME: Final = Struct("<Q")
LINK: Final = Struct("<Q")
TRANSFER: Final = Struct("<QQIIQII")  # file handle, offset, size, flags, lock owner, flags: reads and writes
WRITTEN: Final = Struct("<II")
STATISTICS: Final = Struct("<QQQQQIIII24x")
FORGET: Final = Struct("<Q")
BATCH_FORGET: Final = Struct("<II")
FORGET_ONE: Final = Struct("<QQ")
ALLOCATE: Final = Struct("<QQQII")
SEEK: Final = Struct("<QQII")
SEEK_OUT: Final = Struct("<Q")
DIRECTORY_ENTRY: Final = Struct("<QQII")
SET_MODE, SET_SIZE, SET_MTIME, SET_MTIME_NOW = 1 << 0, 1 << 3, 1 << 5, 1 << 8


def directory_entry(number: int, next_offset: int, mode: int, name: bytes) -> bytes:
    """One entry of a listing, filled up to a multiple of eight bytes."""
    size = -(-(DIRECTORY_ENTRY.size + len(name)) // 8) * 8
    return (DIRECTORY_ENTRY.pack(number, next_offset, len(name), mode >> 12) + name).ljust(size, b"\0")
