"""The HTTP API, a module for each noun: types, handlers, and ``functions``, which declares their addresses."""
