"""What several jobs share: the selection of messages, running queries to their end, progress, errors.

All jobs may come in. Here every room of the pipeline is imported, but no job.
"""
