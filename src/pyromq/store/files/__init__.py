"""Access to the disk: files, segments, small files that appear whole, and whether the disk can be trusted.

For every room of the store. Imports nothing else of the store.
"""
