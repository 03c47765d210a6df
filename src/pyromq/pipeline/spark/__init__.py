"""Spark's side: a session that suits the pipeline, ``format("pyromq")``, the listener that stores progress of groups.

``consuming`` and ``jobs`` may come in. Here every room below is imported; nothing of ``consuming`` and ``jobs`` is.
"""
