"""Fills a table from the topic ``orders``, and kills itself with SIGKILL at a step of a commit, if told so."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial

from pyromq.pipeline.tables import filling
from pyromq.pipeline.tables.delta import MessageTable
from pyromq.pipeline.tables.iceberg import IcebergTable


def main(nameserver: str, folder: str, deadly_step: str, count: str, form: str) -> None:
    left = int(count)

    def on_step(step: str) -> None:
        nonlocal left
        if step == deadly_step:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    vars(filling)["MessageTable"] = partial(MessageTable, on_step=on_step)
    vars(filling)["IcebergTable"] = partial(IcebergTable, on_step=on_step)
    done = filling.fill_table("orders", folder, nameserver, commit_bytes=20_000, form=form)
    sys.stdout.write(f"{done.messages}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
