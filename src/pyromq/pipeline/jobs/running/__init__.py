"""The jobs ``dedupe`` and ``run``: streaming queries from topics to files or topics, one of them described in a file.

``pyromq.pipeline.jobs`` names what others may use. Here ``jobs.common`` and lower rooms are imported, no other job.
"""
