"""The write path: flow control, group commit, stages for disk and replicas, acknowledgements, internal writes, seals.

Owns everything between a staged message and its response. Imports ``base`` only.
"""
