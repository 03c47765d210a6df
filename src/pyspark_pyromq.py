"""Data source discovery: Spark imports modules named ``pyspark_…`` and registers what they call ``DefaultSource``.

So ``format("pyromq")`` works without a call. ``pyromq.pipeline.register`` does more: with it groups hear of each batch
as soon as it is done.
"""

from pyromq.pipeline.spark.source import PyromqDataSource as DefaultSource

__all__ = ["DefaultSource"]
