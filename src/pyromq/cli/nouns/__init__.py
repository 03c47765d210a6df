"""Commands on a cluster or a store folder, one module per noun; ``main`` adds them. They lean on ``pyromq.aio.Admin``.

``…_rows`` and ``…_view`` hold what several verbs show; nouns do not import each other's commands.
"""
