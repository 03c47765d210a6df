"""The command ``pyromq``: what operators type, built on clients and on the servers' own packages.

    main ──▶ nouns (topic, group, message, …)   servers (up, nameserver, broker)   pipeline (jobs on Spark)
               └──────────── all of them write through output ────────────┘

No other package imports this one. Modules import what ``--help`` does not need inside their functions.
"""
