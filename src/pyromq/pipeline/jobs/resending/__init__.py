"""The jobs ``replay`` and ``redrive``: messages and dead letters sent again at a set rate, each with its outcome.

``pyromq.pipeline.jobs`` names what others may use. Here ``jobs.common`` and lower rooms are imported, no other job.
"""
