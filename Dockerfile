# PyroMQ as an image: docker build --tag pyromq . ; docs/how-to/deploy.md says how to run it.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/pyromq && /opt/pyromq/bin/pip install --no-cache-dir --disable-pip-version-check '.[console,tls,acl]'

FROM python:${PYTHON}-slim
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin pyromq && install --directory --owner pyromq --mode 0700 /data
COPY --from=build /opt/pyromq /opt/pyromq
ENV PATH=/opt/pyromq/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYROMQ_LOG_FORMAT=json
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 9876 10911 10909 5557 8082
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=5m --retries=3 CMD ["pyromq", "health"]
ENTRYPOINT ["pyromq"]
# Beyond its own machine a server wants users and TLS, or PYROMQ_BROKER_INSECURE_NETWORK=true from whoever knows the network.
CMD ["up", "--data", "/data", "--host", "0.0.0.0", "--log", "info"]
