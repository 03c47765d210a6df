"""Commands that start servers, and their settings from defaults, files, environment and flags; later sources win.

``properties`` and ``settings_files`` read files, ``settings_sources`` lays sources over each other, ``settings`` says
which a command has. Servers themselves live in ``pyromq.standalone``.
"""
