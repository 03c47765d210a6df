"""Pages for people, a module for each: handlers, view models, and ``pages``, which declares their addresses."""
