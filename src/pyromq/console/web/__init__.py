"""HTTP of the console: registries of pages and API functions, protection, rendering, problems, tables, streams.

Nothing in here knows topics or groups; ``pages`` and ``api`` do.
"""
