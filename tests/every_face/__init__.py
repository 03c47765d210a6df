"""One scenario, looked at through every face: command line, mqadmin, HTTP API, pages, exporter, metrics, top, doctor.

``scenario`` makes it on any cluster, ours or Apache's, and says what is true by construction; ``faces`` reads each face
back into the same facts; ``comparing`` says what differs. Used by ``tests/integration`` and by ``interop/tests``.
"""
