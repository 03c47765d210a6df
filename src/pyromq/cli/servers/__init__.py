"""``pyromq up``, ``nameserver`` and ``broker``, and the settings they start with: defaults, files, environment, flags.

Owns: the order in which sources of settings win.
Callers: ``main``. Imports: ``output``, settings of the servers.
"""
