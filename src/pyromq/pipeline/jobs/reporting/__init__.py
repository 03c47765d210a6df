"""``report``: throughput, latencies, lag, retries and dead letters, as numbers and as one HTML page.

Owns: the questions a report asks, and how the page draws the answers.
Callers: ``pyromq.pipeline.jobs``. Imports: ``common``, and the pipeline below.
"""
