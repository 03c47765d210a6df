"""The operator plane: facts about a cluster and actions on it, each computed once, for PyroMQ's servers and Apache's.

Command line, console and exporter are faces of it: they parse, call, and render. What is asked of servers is in
``client.admin``, one method per request code; what those answers mean together is here.
"""
