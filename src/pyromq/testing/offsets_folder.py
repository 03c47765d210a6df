"""Where broadcasting members of a test keep their offsets: not in the user's home."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyromq.client.consumer.offsets.offsets_file import FOLDER_VARIABLE


@contextmanager
def offsets_folder_of(folder: Path) -> Iterator[None]:
    """Inside the block members of this process, and of its children, write there; unless the environment says where."""
    if FOLDER_VARIABLE in os.environ:
        yield
        return
    os.environ[FOLDER_VARIABLE] = str(folder)
    try:
        yield
    finally:
        os.environ.pop(FOLDER_VARIABLE, None)
