"""``pyromq top``: samples the cluster every few seconds, and shows it between keys."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

from pyromq.cli import clock
from pyromq.cli.connection import DEFAULT_NAMESERVER, NameServerOption, with_admin
from pyromq.cli.declared import Argument, Option
from pyromq.cli.nouns.listing import SortWord
from pyromq.cli.top.state import TopState
from pyromq.cli.top.view import LagHistory, Sample, frame, rows_that_fit, write_once
from pyromq.errors import MQError

if TYPE_CHECKING:
    import asyncio

    from rich.console import Console
    from rich.live import Live

    from pyromq.aio import Admin

_ROWS_ONCE: Final = 20
_SHARED_MS: Final = 150  # topics and groups of one frame are made from one sweep


def top(
    pattern: Annotated[str, Argument(metavar="PATTERN", help="Only topics and groups whose names contain this.")] = "",
    every: Annotated[float, Option("--every", "-e", min=0.2, help="Seconds between samples.")] = 2.0,
    sort: Annotated[SortWord, Option("--sort", "-s", help="What comes first.")] = SortWord.LAG,
    everything: Annotated[bool, Option("--all", "-a", help="Also topics and groups of the system.")] = False,
    once: Annotated[bool, Option("--once", help="Show one frame as plain text; so does a pipe.")] = False,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
) -> None:
    """Watch topics, groups and lag live. Keys: q quits, s sorts, / filters, p pauses, a shows all."""
    state = TopState(sort=sort.value, pattern=pattern, with_system=everything)

    async def look_once(admin: Admin) -> None:
        write_once(sys.stdout, await sample_of(admin, state, _ROWS_ONCE))

    async def look(admin: Admin) -> None:
        from rich.console import Console

        await Top(admin, state, Console(highlight=False), every).run()

    is_live = not once and sys.stdout.isatty() and sys.stdin.isatty()
    try:
        with_admin(nameserver, look if is_live else look_once)
    except KeyboardInterrupt:
        return


class Top:
    """The loop: a sample is on its way while keys change what is shown."""

    def __init__(self, admin: Admin, state: TopState, console: Console, every_s: float) -> None:
        self._admin = admin
        self._state = state
        self._console = console
        self._every_s = every_s
        self._history = LagHistory()
        self._sample: Sample | None = None
        self._problem = ""
        self._failure: MQError | None = None

    async def run(self) -> None:
        """Until q or Ctrl-C. Raises what the first sample raises."""
        from rich.live import Live

        from pyromq.cli.top.keys import pressed_keys

        await self._take_sample()
        self._raise_if_nothing()
        with (
            pressed_keys(sys.stdin.fileno()) as keys,
            Live(console=self._console, screen=True, auto_refresh=False, transient=True) as live,
        ):
            while not self._state.is_over:
                self._draw(live)
                await self._wait(keys, live)

    async def _wait(self, keys: asyncio.Queue[str], live: Live) -> None:
        """For the next sample; keys that come in between are shown at once, and some ask for another sample."""
        import asyncio

        sampled_for = self._state
        until_s = clock.in_use.monotonic_s() + self._every_s
        while (left_s := until_s - clock.in_use.monotonic_s()) > 0:
            try:
                async with asyncio.timeout(left_s):
                    key = await keys.get()
            except TimeoutError:
                break
            self._state = self._state.pressed(key)
            if self._state.is_over:
                return
            self._draw(live)
            if (key == "r" and not self._state.is_typing) or self._state.asks_anew(sampled_for):
                break
        if not self._state.is_paused or self._state.asks_anew(sampled_for):
            await self._take_sample()

    async def _take_sample(self) -> None:
        try:
            self._sample = await sample_of(self._admin, self._state, rows_that_fit(self._console.height))
        except MQError as error:
            self._problem, self._failure = str(error), error
            return
        self._problem = ""
        self._history.add(self._sample.groups)

    def _raise_if_nothing(self) -> None:
        if self._sample is None and self._failure is not None:
            raise self._failure

    def _draw(self, live: Live) -> None:
        assert self._sample is not None
        shown = frame(self._sample, self._state, self._history, width=self._console.width, problem=self._problem)
        live.update(shown, refresh=True)


async def sample_of(admin: Admin, state: TopState, rows: int) -> Sample:
    """What is shown of the cluster now. Raises TransportError, BrokerError."""
    from pyromq.operate.lists import ListQuestion, ListSort

    question = ListQuestion(
        pattern=state.pattern,
        with_system=state.with_system,
        sort=ListSort(state.sort),
        limit=rows,
        max_age_ms=_SHARED_MS,
    )
    from pyromq.operate.brokers import cluster_rates

    brokers = await admin.brokers.list()
    in_per_s, out_per_s = cluster_rates(brokers)
    return Sample(
        at_ms=clock.now_ms(),
        brokers=len({row.broker for row in brokers}),
        in_per_s=in_per_s,
        out_per_s=out_per_s,
        topics=await admin.topics.list(question),
        groups=await admin.groups.list(question),
    )
