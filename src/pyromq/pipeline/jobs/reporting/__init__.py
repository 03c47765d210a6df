"""The job ``report``: what happened to messages, as numbers, tables and one HTML page.

``pyromq.pipeline.jobs`` names what others may use. Here ``jobs.common`` and lower rooms are imported, no other job.
"""
