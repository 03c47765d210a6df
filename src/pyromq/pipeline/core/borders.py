"""Border to Spark: an error of ours leaves a worker as one sentence.

Spark puts the traceback of a worker before the text of its error, and a driver prints both of them again. For an error
that says by itself what to do (``MQError``) the worker is asked to send the text alone. It ends with the error, so no
other one is shortened. Where the code runs in another process than a worker nothing changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from pyromq.errors import MQError

P = ParamSpec("P")
R = TypeVar("R")

_HIDES_TRACEBACKS: Final = "SPARK_HIDE_TRACEBACK"  # read by pyspark.util.handle_worker_exception
_OF_WORKERS: Final = "PYTHON_WORKER_FACTORY_"  # how variables begin that Spark gives to its Python workers


def in_one_sentence(method: Callable[P, R]) -> Callable[P, R]:
    """A method that Spark calls: what it raises of ours is shown without its traceback."""

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except MQError as error:
            if any(name.startswith(_OF_WORKERS) for name in os.environ):
                os.environ[_HIDES_TRACEBACKS] = "true"
            raise error from None

    return called
