"""A consumer group that Spark runs: a handler per row, its verdicts, and the send-back of rows that failed.

``jobs`` may come in. Here every room below is imported; nothing of ``jobs`` is.
"""
