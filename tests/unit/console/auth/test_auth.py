"""Passwords, sessions, tokens and the bound on guessing, each by itself."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from pyromq.console.auth.accounts import ADMIN, TOKENS_MAX, VIEWER, Accounts
from pyromq.console.auth.attempts import (
    ACCOUNT_WAIT_MS_MAX,
    ADDRESS_WAIT_MS_MAX,
    FIRST_WAIT_MS,
    FORGET_MS,
    FREE_ATTEMPTS,
    SignInAttempts,
)
from pyromq.console.auth.passwords import hash_password, is_password, new_password
from pyromq.console.auth.roles import ConsoleIdentity, ConsoleRole
from pyromq.console.auth.sessions import Said, Sessions
from pyromq.console.settings import ConsoleSettings, ScryptCost
from pyromq.errors import ConfigError, CorruptFileError, NotFoundError
from pyromq.security.secret import Secret
from pyromq.testing import ManualClock
from tests.unit.console.rig import CHEAP

# --- passwords ---


def test_a_password_is_known_by_its_hash_and_no_other_is() -> None:
    hashed = hash_password("päss wörd", CHEAP)
    assert "päss" not in hashed
    assert is_password("päss wörd", hashed)
    assert not is_password("päss wörd ", hashed)
    assert hash_password("päss wörd", CHEAP) != hashed, "each hash has its salt"


@pytest.mark.parametrize("hashed", ["", "plain", "md5$1$2", "scrypt$2$1$1$ab", "scrypt"])
def test_what_is_no_hash_fits_no_password(hashed: str) -> None:
    assert not is_password("", hashed)


def test_the_real_cost_is_affordable_and_not_free() -> None:
    cost = ScryptCost()
    assert 128 * cost.n * cost.r >= 32 << 20, "guessing takes memory"
    assert is_password("x", hash_password("x", cost))


def test_generated_passwords_differ() -> None:
    assert len({new_password() for _ in range(100)}) == 100
    assert len(new_password()) >= 20


# --- guessing ---


def fail(attempts: SignInAttempts, times: int, address: str = "10.0.0.9", account: str = "admin") -> None:
    for _ in range(times):
        attempts.failed(address, account)


def test_a_few_mistakes_are_free_then_waits_grow() -> None:
    clock = ManualClock()
    attempts = SignInAttempts(clock)
    fail(attempts, FREE_ATTEMPTS - 1)
    assert attempts.wait_ms("10.0.0.9", "admin") == 0
    waits = []
    for _ in range(4):
        fail(attempts, 1)
        waits.append(attempts.wait_ms("10.0.0.9", "admin"))
    assert waits == [FIRST_WAIT_MS, 2 * FIRST_WAIT_MS, 4 * FIRST_WAIT_MS, 8 * FIRST_WAIT_MS]
    clock.advance_ms(8 * FIRST_WAIT_MS)
    assert attempts.wait_ms("10.0.0.9", "admin") == 0


def test_many_addresses_cannot_guess_one_account_nor_one_address_many_accounts() -> None:
    attempts = SignInAttempts(ManualClock())
    for number in range(200):
        fail(attempts, 1, address=f"10.0.0.{number}")
    assert attempts.wait_ms("10.9.9.9", "admin") == ACCOUNT_WAIT_MS_MAX, "bounded, or anybody could lock it"
    for number in range(200):
        fail(attempts, 1, address="10.1.1.1", account=f"user{number}")
    assert attempts.wait_ms("10.1.1.1", "somebody else") == ADDRESS_WAIT_MS_MAX
    assert attempts.wait_ms("10.2.2.2", "somebody else") == 0


def test_success_and_time_forget_failures() -> None:
    clock = ManualClock()
    attempts = SignInAttempts(clock)
    fail(attempts, 50)
    attempts.succeeded("10.0.0.9", "admin")
    assert attempts.wait_ms("10.0.0.9", "admin") == 0
    fail(attempts, 50)
    clock.advance_ms(FORGET_MS + 1)
    fail(attempts, 1)
    assert attempts.wait_ms("10.0.0.9", "admin") == 0


def test_guessers_with_many_names_do_not_fill_the_memory() -> None:
    attempts = SignInAttempts(ManualClock())
    for number in range(12_000):
        fail(attempts, 1, address=f"a{number}", account=f"n{number}")
    assert len(attempts._failures) <= 10_000


# --- sessions ---


def sessions(clock: ManualClock, most: int = 3) -> Sessions:
    return Sessions(clock, idle_ms_max=1_000, session_ms_max=5_000, sessions_max=most)


def test_a_session_ends_when_idle_and_when_old() -> None:
    clock = ManualClock()
    kept = sessions(clock)
    session = kept.begin(ConsoleIdentity("admin", ConsoleRole.OPERATOR))
    clock.advance_ms(900)
    assert kept.find(session.id) is session
    for _ in range(5):
        clock.advance_ms(900)
        found = kept.find(session.id)
    assert found is None, "used all the time, and old"
    other = kept.begin(ConsoleIdentity("admin", ConsoleRole.OPERATOR))
    clock.advance_ms(1_001)
    assert kept.find(other.id) is None
    assert len(kept) == 0


def test_looking_whether_a_session_is_open_does_not_keep_it_open() -> None:
    clock = ManualClock()
    kept = sessions(clock)
    session = kept.begin(ConsoleIdentity("admin", ConsoleRole.OPERATOR))
    clock.advance_ms(900)
    assert kept.is_open(session.id)
    clock.advance_ms(200)
    assert not kept.is_open(session.id)


def test_ids_are_long_random_and_bounded_in_number() -> None:
    kept = sessions(ManualClock())
    begun = [kept.begin(ConsoleIdentity("admin", ConsoleRole.OPERATOR)) for _ in range(10)]
    assert len({each.id for each in begun} | {each.csrf for each in begun}) == 20
    assert all(len(each.id) >= 43 for each in begun), "256 bits"
    assert len(kept) == 3
    assert kept.find(begun[0].id) is None
    assert kept.find(begun[-1].id) is begun[-1]
    assert kept.find("") is None


def test_a_changed_password_ends_other_sessions_of_the_account() -> None:
    kept = sessions(ManualClock())
    mine, other = (
        kept.begin(ConsoleIdentity("admin", ConsoleRole.OPERATOR)),
        kept.begin(ConsoleIdentity("admin", ConsoleRole.OPERATOR)),
    )
    viewer = kept.begin(ConsoleIdentity("viewer", ConsoleRole.READER))
    kept.end_all_of("admin", but=mine.id)
    assert [kept.is_open(each.id) for each in (mine, other, viewer)] == [True, False, True]


def test_what_was_said_is_said_once_and_bounded() -> None:
    session = sessions(ManualClock()).begin(ConsoleIdentity("admin", ConsoleRole.OPERATOR))
    for number in range(20):
        session.say(Said(str(number)))
    assert [each.text for each in session.take_said()] == [str(number) for number in range(12, 20)]
    assert session.take_said() == []


# --- accounts and tokens ---


def accounts(folder: Path | None = None, **given: str) -> Accounts:
    secrets = {name: Secret(text) for name, text in given.items()}
    return Accounts(ConsoleSettings(data=folder, scrypt=CHEAP, **secrets), ManualClock())  # type: ignore[arg-type]


def test_the_first_password_is_generated_shown_once_and_kept_hashed(tmp_path: Path) -> None:
    first = accounts(tmp_path / "console")
    assert first.verify(ADMIN, first.generated) == ConsoleIdentity(ADMIN, ConsoleRole.OPERATOR)
    again = accounts(tmp_path / "console")
    assert again.generated == ""
    assert again.verify(ADMIN, first.generated) is not None
    kept = tmp_path / "console" / "accounts.json"
    assert first.generated not in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_a_password_of_the_environment_is_never_written(tmp_path: Path) -> None:
    mine = accounts(tmp_path / "console", password="of the environment", viewer_password="reads")
    assert mine.generated == ""
    assert mine.verify(ADMIN, "of the environment") == ConsoleIdentity(ADMIN, ConsoleRole.OPERATOR)
    assert mine.verify(VIEWER, "reads") == ConsoleIdentity(VIEWER, ConsoleRole.READER)
    assert not (tmp_path / "console").exists()
    with pytest.raises(ConfigError, match="comes from the environment"):
        mine.renew(ADMIN)


@pytest.mark.parametrize("name", ["viewer", "nobody", "", "admin\x00"])
def test_an_account_without_password_has_none(name: str) -> None:
    mine = accounts(password="secret")
    assert mine.verify(name, "") is None
    assert mine.verify(name, "secret") is None


def test_tokens_are_kept_as_hashes_and_revoked_for_good(tmp_path: Path) -> None:
    mine = accounts(tmp_path, password="x")
    reads, acts = mine.add_token("dashboards", ConsoleRole.READER), mine.add_token("deploys", ConsoleRole.OPERATOR)
    assert mine.token(reads) == ConsoleIdentity("dashboards", ConsoleRole.READER, token="dashboards")
    assert mine.token(acts) == ConsoleIdentity("deploys", ConsoleRole.OPERATOR, token="deploys")
    assert reads not in (tmp_path / "accounts.json").read_text()
    mine.revoke_token("deploys")
    assert mine.token(acts) is None
    files = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "deploys" not in files, "nor may a backup bring it back"
    assert accounts(tmp_path, password="x").token(reads) is not None
    with pytest.raises(NotFoundError):
        mine.revoke_token("deploys")


@pytest.mark.parametrize("name", ["", "   ", "x" * 61, "a\nb", "a\x1b[0m"])
def test_names_of_tokens_are_short_and_printable(name: str) -> None:
    with pytest.raises(ConfigError, match="printable"):
        accounts(password="x").add_token(name, ConsoleRole.READER)


def test_tokens_are_bounded_and_their_names_are_used_once() -> None:
    mine = accounts(password="x")
    for number in range(TOKENS_MAX):
        mine.add_token(str(number), ConsoleRole.READER)
    with pytest.raises(ConfigError, match="there are 100 tokens"):
        mine.add_token("one more", ConsoleRole.READER)
    mine.revoke_token("7")
    with pytest.raises(ConfigError, match="already"):
        mine.add_token("8", ConsoleRole.READER)


def test_a_damaged_file_is_told_and_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "accounts.json").write_text('{"passwords": 7}')
    with pytest.raises(CorruptFileError, match=r"accounts\.json"):
        accounts(tmp_path)


def test_a_password_that_is_reset_beside_a_running_console_counts_there_and_stays(tmp_path: Path) -> None:
    running = accounts(tmp_path)
    token = running.add_token("dashboards", ConsoleRole.READER)
    reset = accounts(tmp_path).renew(ADMIN)  # ``--reset-password``, in a process of its own
    assert running.verify(ADMIN, reset) is not None
    assert running.verify(ADMIN, running.generated) is None
    running.add_token("deploys", ConsoleRole.READER)  # which writes the file
    assert accounts(tmp_path).verify(ADMIN, reset) is not None
    assert accounts(tmp_path).token(token) is not None


def test_a_token_that_another_console_has_revoked_is_worth_nothing(tmp_path: Path) -> None:
    one, other = accounts(tmp_path), accounts(tmp_path)
    token = one.add_token("dashboards", ConsoleRole.READER)
    assert other.token(token) is not None and [each.name for each in other.tokens] == ["dashboards"]
    one.revoke_token("dashboards")
    assert other.token(token) is None and other.tokens == []


def test_sessions_end_when_their_password_is_another_one(tmp_path: Path) -> None:
    running = accounts(tmp_path)
    kept = Sessions(ManualClock(), idle_ms_max=1_000, session_ms_max=5_000, sessions_max=10, proof_of=running.proof_of)
    admin, viewer = (
        kept.begin(ConsoleIdentity(ADMIN, ConsoleRole.OPERATOR)),
        kept.begin(ConsoleIdentity(VIEWER, ConsoleRole.READER)),
    )
    assert kept.find(admin.id) is admin
    accounts(tmp_path).renew(ADMIN)  # ``--reset-password``, in a process of its own
    assert kept.find(admin.id) is None and kept.find(viewer.id) is viewer
    mine, theirs = (
        kept.begin(ConsoleIdentity(ADMIN, ConsoleRole.OPERATOR)),
        kept.begin(ConsoleIdentity(ADMIN, ConsoleRole.OPERATOR)),
    )
    running.renew(ADMIN)
    kept.end_all_of(ADMIN, but=mine.id)
    assert kept.find(mine.id) is mine and kept.find(theirs.id) is None


def test_the_name_of_the_environments_token_is_taken() -> None:
    with pytest.raises(ConfigError, match="choose another name"):
        accounts(password="x").add_token(" environment ", ConsoleRole.READER)
