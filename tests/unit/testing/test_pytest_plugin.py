"""The pytest plugin, as pytest's own runs see it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import pyromq.testing.loopback  # noqa: F401 - once, and not anew in every run
from pyromq.testing import pytest_plugin
from tests.unit.test_docs import python_blocks_to_run

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parents[3] / "docs/how-to/testing.md"
SHOP = """
    import pytest
    from pyromq import Message, Producer, PushConsumer

    def order(broker, body=b"42"):
        with Producer(broker.nameserver, group="shop") as producer:
            producer.send(Message("orders", body, keys="42"))
"""


@pytest.fixture
def only_plugins_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, only_plugins_named: None) -> Run:
    monkeypatch.delenv("PYROMQ_OFFSETS_FOLDER", raising=False)
    return Run(pytester)


class Run:
    """A file of tests, run with the plugin, whether or not this PyroMQ is installed with its entry point."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester

    def __call__(self, code: str, *options: str, ini: str = "") -> pytest.RunResult:
        self.pytester.makepyfile(test_shop=SHOP + code)
        self.pytester.makeini(f"[pytest]\n{ini}")
        fixed = ["-p", "pyromq.testing.pytest_plugin", "-p", "no:cacheprovider", "--strict-markers", "-q"]
        return self.pytester.runpytest_inprocess(*fixed, *options)


def test_a_test_gets_a_broker_with_virtual_time(run: Run) -> None:
    run(
        """
    def test_retries(pyromq_broker, pyromq_clock):
        began, attempts = pyromq_clock.now(), []

        def charge(message):
            attempts.append(message.delivery_attempt)
            raise ConnectionError("the bank does not answer")

        order(pyromq_broker)
        with PushConsumer(pyromq_broker.nameserver, group="pay", listener=charge, topics="orders", start="earliest"):
            pyromq_clock.settle()
            assert attempts == [0]
            pyromq_clock.advance(hours=5)
        assert attempts == list(range(17))
        assert (pyromq_clock.now() - began).total_seconds() == 5 * 3600
        assert pyromq_clock.now_ms() == pyromq_broker.now_ms()
        assert pyromq_clock.monotonic_ms() == 1000 * pyromq_clock.monotonic_s()
        pyromq_broker.group("pay").assert_dead("orders", [b"42"])

    def test_every_test_has_its_own(pyromq_broker):
        assert pyromq_broker.sent() == []
        order(pyromq_broker)
        assert pyromq_broker.address.startswith("127.0.0.1:")
        """
    ).assert_outcomes(passed=2)


ASYNC_TEST = """
    import asyncio
    from pyromq import aio

    {mark}
    async def test_a_delay(pyromq_broker):
        async with aio.Producer(pyromq_broker.nameserver, group="shop") as producer:
            await producer.send(Message("orders", b"42", delay_ms=3_600_000))
        async with aio.PullConsumer(pyromq_broker.nameserver, group="g", topics="orders", start="earliest") as reader:
            began = asyncio.get_running_loop().time()
            await asyncio.sleep(600)
            assert round(asyncio.get_running_loop().time() - began, 6) == 600
            await pyromq_broker.advance(minutes=50)
            assert [message.body for message in await reader.poll(timeout_ms=5_000)] == [b"42"]
        assert pyromq_broker.sent("orders").bodies == [b"42"]
"""


def test_a_coroutine_test_runs_with_anyio(run: Run) -> None:
    mark = "@pytest.mark.anyio"
    backend = """
    @pytest.fixture
    def anyio_backend():
        return "asyncio"
    """
    run(ASYNC_TEST.format(mark=mark) + backend, "-p", "anyio").assert_outcomes(passed=1)


def test_a_coroutine_test_runs_with_a_runner_of_a_conftest(run: Run) -> None:
    run.pytester.makeconftest("""
        import asyncio, inspect, pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_pyfunc_call(pyfuncitem):
            if inspect.iscoroutinefunction(pyfuncitem.obj):
                arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
                asyncio.run(pyfuncitem.obj(**arguments))
                return True
    """)
    run(ASYNC_TEST.format(mark="")).assert_outcomes(passed=1)


def test_marks_and_the_ini_file_say_how_the_broker_is_made(run: Run) -> None:
    run(
        """
    pytestmark = pytest.mark.pyromq(sockets=True)

    def test_ini(pyromq_broker_options):
        assert pyromq_broker_options["virtual_time"] is False and pyromq_broker_options["sockets"] is True

    @pytest.mark.pyromq(virtual_time=True, sockets=False, delay_levels_ms=[7] * 18)
    def test_mark(pyromq_broker):
        order(pyromq_broker)
        pyromq_broker.advance(seconds=1)
        assert pyromq_broker.broker.store.settings.delay_ladder_ms == (7,) * 18

    @pytest.mark.pyromq(virtualtime=True)
    def test_mistake(pyromq_broker):
        pass

    def test_real_time(pyromq_broker):
        order(pyromq_broker)
        with pytest.raises(Exception, match="time passes by itself"):
            pyromq_broker.advance(seconds=1)
        """,
        ini="pyromq_virtual_time = false\npyromq_sockets = false",
    ).assert_outcomes(passed=3, errors=1)


def test_a_failed_test_shows_what_happened_and_how_to_replay_it(run: Run) -> None:
    code = """
    @pytest.mark.pyromq(faults={"rate": 1.0, "kinds": ["refuse"], "requests": "send"}, sockets=False)
    def test_order(pyromq_broker):
        order(pyromq_broker)
    """
    result = run(code, "--pyromq-seed", "4711")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- PyroMQ -*",
            "*refuse: send (topic orders, group shop)*",
            "*pytest --pyromq-seed 4711 'test_shop.py::test_order'*",
        ]
    )


def test_the_header_shows_a_seed_that_was_given(run: Run) -> None:
    code = "\n    def test_nothing(): pass\n"
    run(code, "--pyromq-seed", "4711", "-v").stdout.fnmatch_lines(["pyromq: seed 4711"])
    run(code, "-v").stdout.no_fnmatch_line("pyromq: seed*")


RANDOM = """
    from pyromq.errors import MQError

    @pytest.mark.pyromq(sockets=False, faults=0.4)
    def test_order(pyromq_broker):
        with Producer(pyromq_broker.nameserver, group="shop") as producer:
            for number in range(20):
                try:
                    producer.send(Message("orders", b"%d" % number))
                except MQError:
                    pass
        print("HAPPENED", [str(hit) for hit in pyromq_broker.faults.happened])
"""


def happened(result: pytest.RunResult) -> list[str]:
    result.assert_outcomes(passed=1)
    return [line for line in result.outlines if "HAPPENED" in line]


def test_a_seed_replays_what_happened_at_random(run: Run) -> None:
    first = happened(run(RANDOM, "-s", "--pyromq-seed", "1"))
    assert first and first == happened(run(RANDOM, "-s", "--pyromq-seed", "1"))
    assert first != happened(run(RANDOM, "-s", "--pyromq-seed", "2"))


@pytest.mark.usefixtures("only_plugins_named")
def test_workers_of_xdist_have_the_seed_of_the_run(pytester: pytest.Pytester) -> None:
    plugin = ["-p", "pyromq.testing.pytest_plugin"]
    config = pytester.parseconfigure(*plugin, "--pyromq-seed", "5")
    node = SimpleNamespace(workerinput={}, config=config)
    pytest_plugin.pytest_configure_node(node)
    assert node.workerinput == {"pyromq_seed": 5}
    worker = pytester.parseconfigure(*plugin)
    worker.workerinput = node.workerinput  # type: ignore[attr-defined]
    pytest_plugin.pytest_configure(worker)
    pytest_plugin.pytest_configure_node(other := SimpleNamespace(workerinput={}, config=worker))
    assert other.workerinput == {"pyromq_seed": 5}


def test_faults_may_be_a_function(run: Run) -> None:
    run("""
    def busy_twice(faults):
        faults.refuse("orders", times=2)

    @pytest.mark.pyromq(faults=busy_twice)
    def test_order(pyromq_broker):
        order(pyromq_broker)
        assert len(pyromq_broker.faults.happened) == 2
    """).assert_outcomes(passed=1)


APP = """
    class App:
        '''Something with running(nameservers): what the plugin asks of an app.'''

        life = []

        def running(self, nameservers):
            from contextlib import contextmanager

            class Block:
                def __enter__(block):
                    self.life.append(("began", nameservers))
                    return self

                def __exit__(block, *exc_info):
                    self.life.append(("ended", nameservers))

                async def __aenter__(block):
                    return block.__enter__()

                async def __aexit__(block, *exc_info):
                    block.__exit__()

            return Block()

    app = App()
"""


def test_an_app_runs_with_the_broker_of_the_test(run: Run) -> None:
    run(
        APP
        + """
    def test_app(pyromq_app, pyromq_broker):
        assert pyromq_app(app) is app
        assert App.life == [("began", pyromq_broker.nameserver)]

    def test_app_of_the_ini_file(pyromq_app):
        assert len(App.life) == 2 and App.life[1][0] == "ended"
        assert pyromq_app() is app

    @pytest.mark.anyio
    async def test_app_of_a_coroutine(pyromq_app, pyromq_broker):
        App.life.clear()
        assert await pyromq_app(app) is app
        assert App.life == [("began", pyromq_broker.nameserver)]

    @pytest.fixture
    def anyio_backend():
        return "asyncio"

    def test_it_has_ended():
        assert [what for what, _ in App.life] == ["began", "ended"]
        """,
        "-p",
        "anyio",
        ini="pyromq_app = test_shop:app",
    ).assert_outcomes(passed=4)


def test_which_app_must_be_said(run: Run) -> None:
    result = run("""
    def test_app(pyromq_app):
        pyromq_app()
    """)
    result.stdout.fnmatch_lines(["*which app? call pyromq_app(app)*"])


BROADCAST = """
    from pathlib import Path

    def test_broadcast(pyromq_broker):
        got = []
        order(pyromq_broker)
        with PushConsumer(
            pyromq_broker.nameserver, group="cache", listener=lambda message: got.append(message.body),
            topics="orders", start="earliest", broadcast=True,
        ):
            pyromq_broker.advance(seconds=30)
        assert got == [b"42"]
        assert list(Path.home().iterdir()) == []
"""


def test_nothing_is_written_into_the_home_of_the_user(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o500)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("PYROMQ_OFFSETS_FOLDER", raising=False)
    run(BROADCAST).assert_outcomes(passed=1)
    assert list(home.iterdir()) == []


def test_pytest_pays_nothing_for_a_plugin_that_is_not_used() -> None:
    program = (
        "import pytest, sys, pyromq.testing.pytest_plugin; print([n for n in sys.modules if n.startswith('pyromq')])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "['pyromq', 'pyromq.testing', 'pyromq.testing.pytest_plugin']"


def test_other_processes_reach_the_broker_by_its_address(run: Run) -> None:
    run("""
    import subprocess, sys

    @pytest.mark.pyromq(virtual_time=False)
    def test_order(pyromq_broker):
        program = (
            "import sys; from pyromq import Message, Producer\\n"
            "with Producer(sys.argv[1], group='other') as producer: producer.send(Message('orders', b'from afar'))"
        )
        subprocess.run([sys.executable, "-c", program, pyromq_broker.nameserver], check=True, timeout=60)
        assert pyromq_broker.sent("orders").bodies == [b"from afar"]
    """).assert_outcomes(passed=1)


def test_the_tests_of_the_page_pass(run: Run) -> None:
    blocks = python_blocks_to_run(PAGE.read_text(encoding="utf-8"))
    (run.pytester.path / "test_page.py").write_text("\n".join(block.code for block in blocks), encoding="utf-8")
    tests = sum(block.code.count("def test_") for block in blocks)
    result = run("", "-p", "anyio", "test_page.py")
    result.assert_outcomes(passed=tests)
    assert tests >= 8
