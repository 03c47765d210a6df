"""Check-backs of a transactional sink: ``python -m pyromq.pipeline.sink.check_backs`` answers what brokers ask.

A process of its own beside the driver, because Spark ends idle Python workers and brokers may ask much later. It is
started with the first batch of every life of a query, there is one per sink and driver, and it ends with the process
whose number it was given, which is Spark's own.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import pickle
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from pyromq.client.core.client import Client
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.transaction import TransactionOutcome
from pyromq.client.transactions.transaction_producer import TransactionProducer
from pyromq.model.property_names import UNIQUE_KEY
from pyromq.pipeline.core.connections import client_settings
from pyromq.pipeline.sink.options import SinkOptions
from pyromq.pipeline.sink.transactions import decisions_of

logger = logging.getLogger(__name__)

_LOOK_S: Final = 0.5  # between two checks whether Spark is still running
_started: dict[tuple[str, str], subprocess.Popen[bytes]] = {}


def keep_answering(options: SinkOptions) -> None:
    """There is such a process for this sink, from now on and for as long as Spark lives."""
    key = options.checkpoint, options.group
    running = _started.get(key)
    if running is not None and running.poll() is None:
        return
    process = subprocess.Popen(
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    )
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write(pickle.dumps((options, os.getppid())))
    _started[key] = process


async def answer(options: SinkOptions, watched: int) -> None:
    """Until the watched process is gone."""
    decisions = decisions_of(options)

    def check(message: ReceivedMessage) -> TransactionOutcome:
        outcome = decisions.outcome(message.get(UNIQUE_KEY) or "")
        logger.info("asked: key=%s outcome=%s", message.get(UNIQUE_KEY), outcome.name)
        return outcome

    async with (
        Client(client_settings(options.reaching)) as client,
        TransactionProducer(group=options.group, topics=options.topics, check=check, client=client),
    ):
        while _is_there(watched):  # noqa: ASYNC110  # no event reports the end of another process
            await asyncio.sleep(_LOOK_S)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _only_one(options: SinkOptions, watched: int) -> IO[str] | None:
    """A lock that is held as long as the file is open; None when another process holds it."""
    path = Path(tempfile.gettempdir()) / f"pyromq-answers-{options.group}-{watched}.lock"
    file = path.open("w")
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file
    file.close()
    return None


def main() -> None:
    options, watched = pickle.loads(sys.stdin.buffer.read())
    lock = _only_one(options, watched)
    if lock is None:
        return
    try:
        asyncio.run(answer(options, watched))
    finally:
        Path(lock.name).unlink(missing_ok=True)
        lock.close()


if __name__ == "__main__":
    main()
