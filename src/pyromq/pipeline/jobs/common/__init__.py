"""What jobs share: a selection of topics, running a query to its end, progress bars, patches, interrupts.

Owns: how a job reads, shows progress, and stops.
Callers: the other rooms of ``jobs``. Imports: the pipeline below ``jobs``.
"""
