"""The job ``archive``: topics to Parquet, exactly once, and compaction of what it wrote.

``pyromq.pipeline.jobs`` names what others may use. Here ``jobs.common`` and lower rooms are imported, no other job.
"""
