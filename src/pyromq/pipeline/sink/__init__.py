"""Writing topics: rows become requests, sent until a broker confirms them; repeated batches are recognised.

``spark``, ``consuming`` and ``jobs`` may come in. Here only ``core``, ``arrow``, ``reading`` and Spark's writer classes
are imported.
"""
