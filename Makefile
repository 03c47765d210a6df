# Everything runs in .venv, which the first target that needs it creates from PyPI.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The compiled core, where cargo is there; without it everything works, in Python alone.
CORE := $(VENV)/.core
CORE_SOURCES := core/Cargo.toml core/pyproject.toml core/build.py $(wildcard core/src/*.rs)
DEMO := .cache/demo
SITE := .cache/site
AIRFLOW := $(CURDIR)/.cache/airflow
GRPC := $(CURDIR)/.cache/grpc
RELEASE := .cache/release
# The tests start hundreds of processes: with it each of them would compile all that it imports, a second and more.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo demo-console test test-more explore browser helm screenshots airflow grpc check format docs bench bench-broker bench-replication bench-spark spark-older compare crash faults soak sim porcupine pops hostile interop h2spec wheels smoke image lock audit surface surface-check release clean

help:  ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) $(CORE)  ## create .venv with everything the other targets need, and the compiled core where cargo is there

$(READY): pyproject.toml requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "PyroMQ needs Python 3.11 or newer; say which with 'make PYTHON=python3.12'"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(CORE): $(READY) $(CORE_SOURCES)
	@$(BIN)/python core/build.py
	@touch $@

demo: $(READY)  ## orders, a crash, retries, dead letters sent again; the store alone; the orders on Spark, with a picture
	@rm -rf $(DEMO)
	@$(BIN)/python examples/orders_survive_a_crash.py $(DEMO)
	@$(BIN)/python examples/crash_and_recover.py
	@$(BIN)/python examples/orders_on_spark.py $(DEMO)

demo-console: $(READY)  ## the console on what make demo left, with a shop at work; prints address and password, Ctrl-C ends it
	@$(BIN)/python examples/demo_console.py $(DEMO)

test: $(READY) $(CORE)  ## every promise once, in the mode that is installed, Spark included: some twenty minutes on two cores
	$(BIN)/python -m tests.running test $(ARGUMENTS)

test-more: $(READY) $(CORE)  ## after make test: the mode that is not installed, the documentation site, browsers, long rounds of kills
	$(BIN)/python -m tests.running more $(ARGUMENTS)

MINUTES ?= 60
explore: $(READY) $(CORE)  ## property tests, store lives, simulations, lanes and fuzzers with new seeds: an hour, or MINUTES=10
	$(BIN)/python -m tests.running.explore --minutes $(MINUTES) $(ARGUMENTS)

browser:  ## Debian's Chromium for the browser tests, where this machine can install it; never fails
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "installing Chromium for the browser tests" && \
	  DEBIAN_FRONTEND=noninteractive timeout 300 sh -c 'apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium' >/dev/null 2>&1; \
	} || echo "no Chromium here, and none could be installed: browser tests will not run"

helm:  ## helm for the tests of the chart, built from Go's module proxy into .cache/tools where go is there; never fails
	@command -v helm >/dev/null || [ -x .cache/tools/helm ] || { command -v go >/dev/null && echo "building helm for the tests of the chart" && \
	  GOBIN=$(CURDIR)/.cache/tools timeout 900 go install helm.sh/helm/v3/cmd/helm@v3.16.4 >/dev/null 2>&1; \
	} || echo "no helm here, and none could be built: the chart is looked at, not rendered"

screenshots: $(READY)  ## pictures of the console in docs/images, and of every page in .cache/screenshots; needs Chromium
	$(BIN)/python -m tests.console.browser.screenshots docs/images .cache/screenshots

airflow: $(AIRFLOW)/.ready  ## our Airflow provider with the real Apache Airflow, in an environment of its own: a hundred packages
	AIRFLOW_HOME=$(AIRFLOW)/home $(AIRFLOW)/bin/python -m pytest -p no:cacheprovider tests/airflow

$(AIRFLOW)/.ready: pyproject.toml
	$(PYTHON) -m venv $(AIRFLOW)
	$(AIRFLOW)/bin/python -m pip install --quiet --disable-pip-version-check 'apache-airflow>=3' pytest hypothesis --editable '.[airflow]'
	@touch $@

grpc: $(READY) $(CORE) $(GRPC)/.ready  ## the official Python client of RocketMQ 5 with our broker, in an environment of its own: it brings grpcio and OpenTelemetry
	HOME=$(GRPC)/home PYROMQ_PYTHON=$(CURDIR)/$(BIN)/python $(GRPC)/bin/python -m pytest -p no:cacheprovider tests/official_clients

$(GRPC)/.ready: pyproject.toml
	$(PYTHON) -m venv $(GRPC)
	$(GRPC)/bin/python -m pip install --quiet --disable-pip-version-check 'rocketmq-python-client>=5.1.2,<6' pytest hypothesis --editable .
	@mkdir -p $(GRPC)/home
	@touch $@

check: $(READY)  ## ruff, mypy --strict, import rules; that programs of users are typed as promised (mypy, pyright)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -m check tests/unit/test_typing.py tests/unit/test_architecture.py
	$(BIN)/zizmor --offline --quiet .github/workflows
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/release.yml

format: $(READY)  ## let ruff fix what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)  ## the documentation as a site, in .cache/site; warnings are errors
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet --doctree-dir $(SITE)/.doctrees docs $(SITE)
	@echo "open $(SITE)/index.html"

bench: $(READY) $(CORE)  ## rates and CPU per operation of codec, store, recovery and index
	$(BIN)/python -m benchmarks

bench-broker: $(READY) $(CORE)  ## the broker under load of a C program, with the compiled core and without: CPU per message, latencies
	$(BIN)/python -m benchmarks.end_to_end

bench-replication: $(READY) $(CORE)  ## a master that waits for a replica beside one that has none, CPU of a replica, catch-up; with the compiled core and without
	$(BIN)/python -m benchmarks.bench_replication

bench-spark: $(READY)  ## topics, sinks and jobs of the pipeline: CPU per row of JVM and workers, latencies, goals beside
	$(BIN)/python -m benchmarks.bench_spark
	$(BIN)/python -m benchmarks.bench_spark_sink
	$(BIN)/python -m benchmarks.bench_spark_jobs
	$(BIN)/python -m benchmarks.bench_spark_latency
	$(BIN)/python -m benchmarks.bench_spark_lanes
	$(BIN)/python -m benchmarks.bench_spark_typed

SPARK ?= 4.2.1
OLDER := .cache/pyspark-$(SPARK)
spark-older: $(READY) $(CORE)  ## sources and sinks of both lanes with another Spark (SPARK=4.2.1), fetched into .cache: a quarter of an hour
	[ -d $(OLDER)/pyspark ] || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(OLDER) pyspark==$(SPARK)
	PYTHONPATH=$(CURDIR)/$(OLDER) $(BIN)/python -m pytest -q -n 1 -m spark tests/spark/test_lanes.py tests/spark/test_lane_sink.py tests/spark/test_stream.py tests/spark/test_batch.py

compare: $(READY) $(CORE)  ## beside Apache RocketMQ (broker, proxy) and Spark's Kafka source (the pipeline), one run: needs Java 17, Maven, a C compiler
	$(BIN)/python -m benchmarks.compare $(ARGUMENTS)

crash: $(READY)  ## the long crash run: 500 rounds of kill -9, more seeds
	PYROMQ_CRASH_ROUNDS=500 PYROMQ_FLIPS=40000 PYROMQ_LIVES=20000 PYROMQ_LEDGER_MESSAGES=50000 PYROMQ_REPLICATION_ROUNDS=15 $(BIN)/python -m pytest -n auto --dist worksteal tests/crash tests/integration

faults: $(READY)  ## rounds of faults, from a seed; prints tables of docs/reliability.md. ARGUMENTS=--three [--secured]: three members, lease stores; --jepsen: power, damaged files
	$(BIN)/python -m tests.faults $(ARGUMENTS)

HOURS ?= 3
soak: $(READY) $(CORE)  ## hours of mixed load on three members, a fault every few minutes, ledger, memory, descriptors, disk; runs add up (HOURS=3, ARGUMENTS="--record docs/reliability.md")
	$(BIN)/python -m tests.soak --hours $(HOURS) $(ARGUMENTS)

# SIM_PYTHON=…: another interpreter. One of the version in .venv has its packages: /usr/bin/python3.11, where it was built
# with profile-guided optimisation, needs a sixth less CPU. One of another version has its own (those of pyproject.toml,
# and hpack): Debian's 3.15 needs a fifth less than that. A seed has the same hash.
sim: $(READY) $(CORE)  ## the whole cluster in a simulator, with faults by seed: SEED=7, SEEDS=100..149 or MINUTES=10 (JOBS=2 processes at a time)
	$(if $(SIM_PYTHON),PYTHONPATH=.:src:$(VENV)/lib/python$$($(SIM_PYTHON) -c 'import sys; print(*sys.version_info[:2], sep=".")')/site-packages $(SIM_PYTHON),$(BIN)/python) -m tests.sim $(if $(JOBS),--jobs $(JOBS)) $(if $(SEED),--seed $(SEED),$(if $(SEEDS),--seeds $(SEEDS),--minutes $(MINUTES))) $(ARGUMENTS)

porcupine: $(READY) $(CORE)  ## Porcupine's opinion on histories of the simulator, good and spoiled ones: needs Go; SEEDS=1..20
	$(BIN)/python -m tests.sim.second_opinion $(if $(SEEDS),--seeds $(SEEDS))

POP_SEEDS ?= 1..40
pops: $(READY) $(CORE)  ## the ledger of popped messages, both protocols, with replicas and without: simulated kills by seed, then kill -9
	$(BIN)/python -m tests.sim --pops --seeds $(POP_SEEDS)
	$(BIN)/python -m tests.faults.pop_rounds $(ARGUMENTS)

hostile: $(READY)  ## the long run of hostile clients, then a million fuzzed requests, ten million inputs of gRPC; prints the table of docs/reliability.md
	PYROMQ_HOSTILE=long $(BIN)/python -m pytest tests/hostile
	$(BIN)/python -m tests.hostile.fuzz --requests 1000000
	$(BIN)/python -m tests.hostile.fuzz_grpc --inputs 10000000 --calls 20000

interop: $(READY)  ## the real Apache RocketMQ beside ours: needs Java 17, Maven, Go, Node.js, cargo, an hour; writes docs/compatibility.md
	@mkdir -p $${XDG_CACHE_HOME:-$$HOME/.cache}/pyromq-interop
	$(BIN)/python -m pytest interop/tests -n 3 --dist loadfile -p no:cacheprovider --basetemp=$${XDG_CACHE_HOME:-$$HOME/.cache}/pyromq-interop/run --compatibility docs/compatibility.md

h2spec: $(READY) $(CORE)  ## HTTP/2 conformance of the gRPC port, with the core and without: h2spec 2.2.1 from Go's module proxy, 145 cases
	@mkdir -p $${XDG_CACHE_HOME:-$$HOME/.cache}/pyromq-interop/grpc
	$(BIN)/python -m interop.grpc.h2spec

wheels: $(RELEASE)/.ready  ## sdists and wheels of pyromq and pyromq-core in dist/, checked; needs cargo
	$(RELEASE)/bin/python -m release wheels

smoke: $(RELEASE)/.ready  ## install what make wheels left with pip and uv, in every Python of this machine, and send a message
	$(RELEASE)/bin/python -m release smoke

image: $(RELEASE)/.ready  ## the image of the Dockerfile from dist/, built without a daemon and started once; root on Debian, with buildah and mmdebstrap
	$(RELEASE)/bin/python -m release.image

audit: $(RELEASE)/.ready  ## known vulnerabilities of dependencies; needs the databases of pip-audit and cargo audit
	$(RELEASE)/bin/python -m release.audit

lock: $(RELEASE)/.ready  ## requirements-dev.txt: exact versions and hashes of what make installs
	$(RELEASE)/bin/uv pip compile --quiet pyproject.toml --group dev --generate-hashes --universal --python-version 3.11.7 --no-header --no-annotate --output-file requirements-dev.txt

surface: $(READY)  ## record the public names: release/surface.txt
	@$(BIN)/python -W ignore -m release.surface

rooms: $(READY)  ## the table of rooms in CONTRIBUTING.md, from the docstrings of the packages
	@$(BIN)/python -m release.rooms

surface-check: $(READY)
	$(BIN)/python -m pytest -q tests/release/test_surface.py

release: $(RELEASE)/.ready  ## every check of a release, then its commit and tag: VERSION=0.1.0, DRY=1 to change nothing
	$(RELEASE)/bin/python -m release release "$(VERSION)" $(if $(DRY),--dry) $(if $(SKIP),--skip $(SKIP))

$(RELEASE)/.ready: pyproject.toml
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check --group release
	@touch $@

clean:  ## remove what the targets above made
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist core/target
	find src tests benchmarks examples interop -name __pycache__ -prune -exec rm -rf {} +
