"""The write path: group commit, flow control before it, internal writes, seals.

Owns everything between a staged message and its response. Imports ``base`` only.
"""
