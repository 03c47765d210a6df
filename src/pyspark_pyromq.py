"""Spark looks for modules named ``pyspark_…`` and registers what they call ``DefaultSource``: format("pyromq") is there
without a word. ``pyromq.pipeline.register`` does more: groups then hear of each batch as soon as it is done.
"""

from pyromq.pipeline.spark.source import PyromqDataSource as DefaultSource

__all__ = ["DefaultSource"]
