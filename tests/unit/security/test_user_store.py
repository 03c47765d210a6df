"""The book of users: changes, limits, and what a crash leaves of its file."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from pyromq.errors import ConfigError, CorruptFileError
from pyromq.security.errors import AccessChangeError
from pyromq.security.policies import UserStatus, UserType
from pyromq.security.resources import ResourcePattern
from pyromq.security.secret import Secret
from pyromq.security.user_store import UserStore
from pyromq.testing import FaultyDisk
from pyromq.testing.faulty_disk import Crashed, CrashMode
from tests.unit.security.people import add_user, allow, entry, secret_of


def test_everything_is_there_again_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "config" / "pyromq-access.json"
    book = UserStore(path)
    add_user(book, "root", is_super=True)
    add_user(book, "älice")
    allow(
        book, "älice", entry("Topic:order*", "Pub", sources=("10.0.0.0/8",)), entry("Group:g", "All", decision="Deny")
    )
    book.update_user("root", Secret("new password"), None, None)
    again = UserStore(path)
    assert dict(again.rules.policies) == dict(book.rules.policies)
    assert {name: (user.type, user.status, user.password) for name, user in again.rules.users.items()} == {
        "root": (UserType.SUPER, UserStatus.ENABLE, Secret("new password")),
        "älice": (UserType.NORMAL, UserStatus.ENABLE, Secret(secret_of("älice"))),
    }
    for each in path.parent.iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o600, each
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", list(CrashMode))
def test_a_crash_at_any_operation_leaves_the_old_or_the_new_rules(mode: CrashMode) -> None:
    path = Path("/store/config/pyromq-access.json")
    ladder: list[set[str]] = [set(), {"root"}, {"root", "alice"}, {"root", "alice", "bob"}]
    number = 0
    while True:
        number += 1
        disk, acknowledged = FaultyDisk(), 0
        disk.crash_at(number)
        try:
            book = UserStore(path, disk=disk)
            for name in ("root", "alice", "bob"):
                add_user(book, name, is_super=name == "root")
                acknowledged += 1
        except Crashed:
            pass
        users = set(UserStore(path, disk=disk.after_crash(mode)).rules.users)
        assert users in ladder[acknowledged : acknowledged + 2], number
        if acknowledged == 3:
            break
    assert number > 10


def test_a_disk_that_refuses_leaves_everything_as_it_was(tmp_path: Path) -> None:
    class Full:
        def exists(self, path: Path) -> bool:
            return False

        def write(self, path: Path, data: bytes) -> None:
            raise OSError(28, "No space left on device")

        read = rename = sync_folder = write  # type: ignore[assignment]

    book = UserStore(tmp_path / "x", disk=Full())  # type: ignore[arg-type]
    told: list[int] = []
    book.on_change.append(lambda: told.append(1))
    with pytest.raises(OSError, match="No space"):
        add_user(book, "root", is_super=True)
    assert not book.rules.users and not told and book.rules.version == 0


def test_a_damaged_file_is_passed_over_for_its_backup_and_two_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    book = UserStore(path)
    add_user(book, "root", is_super=True)
    add_user(book, "alice")
    path.write_bytes(b'{"users": [')
    assert set(UserStore(path).rules.users) == {"root"}
    path.with_name("book.json.bak").write_bytes(b"nonsense with a canary-secret")
    with pytest.raises(CorruptFileError) as caught:
        UserStore(path)
    assert "canary" not in str(caught.value)


def test_a_file_with_entries_that_mean_nothing_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    path.write_text(
        '{"users":[{"username":"a","password":"p"}],"acls":[{"subject":"User:a","policies":[{"entries":'
        '[{"resource":"Queue:x","actions":["Pub"],"decision":"Allow"}]}]}]}'
    )
    with pytest.raises(ConfigError, match="not usable"):
        UserStore(path)


def test_there_is_always_a_super_user() -> None:
    book = UserStore()
    add_user(book, "root", is_super=True)
    add_user(book, "alice")
    for change in (
        lambda: book.delete_user("root"),
        lambda: book.update_user("root", None, UserType.NORMAL, None),
        lambda: book.update_user("root", None, None, UserStatus.DISABLE),
    ):
        with pytest.raises(AccessChangeError, match="last super user"):
            change()
    book.update_user("alice", None, UserType.SUPER, None)
    book.delete_user("root")
    assert set(book.rules.users) == {"alice"}


def test_every_change_is_a_new_version_that_is_told() -> None:
    book = UserStore()
    told: list[int] = []
    book.on_change.append(lambda: told.append(book.rules.version))
    add_user(book, "root", is_super=True)
    allow(book, "root", entry("*", "All"))
    book.delete_policies("root", None, ResourcePattern.parse("*"))
    assert told == [1, 2, 3]
    assert not book.rules.policies


def test_changes_of_what_is_not_there_are_refused() -> None:
    book = UserStore()
    add_user(book, "alice")
    with pytest.raises(AccessChangeError, match="existed"):
        add_user(book, "alice")
    for change in (
        lambda: book.update_user("bob", None, None, None),
        lambda: book.delete_user("bob"),
        lambda: allow(book, "bob", entry("*", "All")),
        lambda: book.delete_policies("bob", None, None),
        lambda: book.delete_policies("alice", None, None),
    ):
        with pytest.raises(AccessChangeError, match="not exist"):
            change()


def test_a_deleted_user_takes_its_policies_along() -> None:
    book = UserStore()
    add_user(book, "alice")
    allow(book, "alice", entry("*", "All"))
    book.delete_user("alice")
    add_user(book, "alice")
    assert "alice" not in book.rules.policies


def test_changes_are_counted_for_good_and_a_replica_has_its_masters_number(tmp_path: Path) -> None:
    path = tmp_path / "pyromq-access.json"
    book = UserStore(path)
    add_user(book, "root", is_super=True)
    add_user(book, "alice")
    book.delete_user("alice")
    assert book.changes == 3 and UserStore(path).changes == 3
    replica = UserStore()
    add_user(replica, "root", is_super=True)
    replica.adopt(book.text())
    assert replica.changes == 3 and replica.text() == book.text()
