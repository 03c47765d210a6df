# PyroMQ as an image, from its wheels: make wheels, then docker build --tag pyromq . ; docs/how-to/deploy.md says how to run it.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
COPY dist/*.whl /wheels/
RUN python3 -m venv /opt/pyromq && set -- /wheels/pyromq-*.whl && \
    /opt/pyromq/bin/pip install --no-cache-dir --disable-pip-version-check --find-links /wheels "$1[fast,console,tls,acl,failover]"

FROM ${BASE}
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin pyromq && install --directory --owner pyromq --mode 0700 /data
COPY --from=build /opt/pyromq /opt/pyromq
ENV PATH=/opt/pyromq/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYROMQ_LOG_FORMAT=json
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 9876 10911 10909 10912 5557 8082
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=5m --retries=3 CMD ["pyromq", "health"]
ENTRYPOINT ["pyromq"]
# Beyond its own machine a server wants users and TLS, or PYROMQ_BROKER_INSECURE_NETWORK=true from whoever knows the network.
CMD ["up", "--data", "/data", "--host", "0.0.0.0", "--log", "info"]
