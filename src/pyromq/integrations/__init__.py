"""PyroMQ in other people's frameworks: one module for each framework, which the user installs.

Importing this package imports none of them; a module of it needs its framework, and the error names the extra to
install. What several of them share (a consumer that acknowledges single messages, queues of tasks) lies beside them.
"""
