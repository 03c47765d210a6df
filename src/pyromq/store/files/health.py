"""Health of a store: whether it can be written, and if not, why and what would change that."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

from pyromq.errors import DiskFullError, StoreClosedError, StoreReadOnlyError, UntrustedDiskError

logger = logging.getLogger(__name__)

_FORBIDDEN_ERRNOS = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
_SHORTAGE_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # of this machine for a moment, not of the disk


def cannot_open(root: Path, error: OSError) -> StoreReadOnlyError:
    """Why a store cannot be opened for writing, with what to do about it."""
    if error.errno in _FULL_ERRNOS:
        return DiskFullError(f"{root} cannot be opened: the disk is full; free some space and try again")
    if error.errno in _FORBIDDEN_ERRNOS:
        return StoreReadOnlyError(f"{root} cannot be written: {error}; check its owner and permissions")
    return UntrustedDiskError(f"{root} cannot be opened: {error}; check the disk")


class DiskHealth:
    """Writable, full for now, untrusted until reopened, or closed; the worst that happened counts."""

    def __init__(self) -> None:
        self._full = ""  # why nothing can be written for now
        self._untrusted = ""  # why no write or flush is believed until the store is opened again
        self._closed = False
        self.damage = ""  # what a scrub found changed on disk, in the sealed part of the log
        self.writable = True  # plain attributes, these two: every append looks at them
        self.trusted = True

    @property
    def full(self) -> bool:
        return bool(self._full)

    def error(self) -> StoreReadOnlyError | StoreClosedError:
        """Why the store is not writable, as a fresh exception."""
        if self._closed:
            return StoreClosedError("the store is closed")
        if self._untrusted:
            return UntrustedDiskError(
                f"the store is read-only: {self._untrusted}; check the disk, then reopen the store"
            )
        return DiskFullError(f"the store is read-only: {self._full}; it becomes writable again when there is space")

    def failed_write(self, what: str, error: OSError) -> StoreReadOnlyError:
        """A write did not happen: shortages heal by themselves, anything else is a reason to distrust the disk."""
        if error.errno in _FULL_ERRNOS:
            return self.disk_full(f"no space for {what}")
        if error.errno in _SHORTAGE_ERRNOS:
            return self.disk_full(f"no resources for {what}: {error.strerror}")
        return self.untrust(f"writing {what} failed: {error}")

    def disk_full(self, reason: str) -> DiskFullError:
        if not self._full:
            logger.error("store is read-only, disk full: reason=%s", reason)
        self._full, self.writable = reason, False
        return DiskFullError(f"the store is read-only: {reason}; it becomes writable again when there is space")

    def space_returned(self) -> None:
        if self._full:
            logger.warning("store is writable again: was=%s", self._full)
            self._full = ""
            self.writable = not (self._untrusted or self._closed)

    def untrust(self, reason: str) -> UntrustedDiskError:
        """After a failed fsync the kernel may have dropped what it could not write: no later success is believed."""
        logger.error("store is read-only, disk untrusted: reason=%s", reason)
        self._untrusted, self.trusted, self.writable = self._untrusted or reason, False, False
        return UntrustedDiskError(f"the store is read-only: {reason}; check the disk, then reopen the store")

    def close(self) -> None:
        """For good: a flush that comes to its end after that counts no more."""
        self._closed, self.writable, self.trusted = True, False, False
