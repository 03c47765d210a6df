"""Mirrors the topic ``orders`` from one cluster to another, and kills itself with SIGKILL at a step, if told so."""

from __future__ import annotations

import os
import signal
import sys

from pyromq.pipeline.mirroring import packing
from pyromq.pipeline.mirroring.job import mirror


def main(nameserver: str, to: str, deadly_step: str, count: str) -> None:
    left = int(count)

    def on_step(step: str) -> None:
        nonlocal left
        if step == deadly_step:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    vars(packing)["BATCH_BYTES"] = 2_000  # a few messages in each request
    done = mirror(["orders"], nameserver, to, groups=["billing"], on_step=on_step)
    sys.stdout.write(f"{done.copied} {done.repeated}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
