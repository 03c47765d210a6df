"""Building, checking and preparing a release: ``make wheels``, ``make release VERSION=x``.

    building    sdists and wheels of pyromq and pyromq-core, with software bills of materials and licence texts
    checking    what must hold of these files before anybody installs them
    smoke       a clean environment installs them from a local index and sends a message
    steps       the order of a release: checks, version, tag; publishing itself is a person's act
    surface     names that are public, compared with the recorded ones
    build_hook  what hatchling runs inside every build of pyromq: the page for package indexes, the bill of materials

Nothing here is installed with PyroMQ, and nothing in ``src`` imports it.
"""
