"""A URL of several hosts: one that is silent, refuses or is a standby is passed over, and the log says why."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
import structlog

from event_loops import passes_until
from free_port import free_port
from machine_deadlines import moved_deadlines
from paydesk.platform.storage.connect import notifications_published, open_database
from paydesk.platform.storage.database import ReadOnly, Unavailable, UnsafeDatabase
from paydesk.platform.storage.postgres.hosts import hosts_of
from postgres_server import PostgresServer
from tables import each
from waiting import until, until_found

ADD = "INSERT INTO terminal_owners (terminal_id, seller_id) VALUES ($1, 1)"


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port at which connections are accepted by the system and nothing ever answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        yield port


@pytest.fixture(scope="module")
def standby(postgres_server: PostgresServer) -> Iterator[Path]:
    """The socket of a hot standby of the server."""
    with postgres_server.standby() as folder:
        yield folder


def _behind(url: str, *hosts: tuple[str | Path, int], further: str = "") -> str:
    """The URL of a database with these hosts before its own."""
    parts = urlsplit(url)
    own = parse_qs(parts.query)["host"][0]
    names = ",".join(str(host) for host, _ in (*hosts, (own, 0)))
    ports = ",".join(str(port) for _, port in (*hosts, ("", 5432)))
    return f"postgresql://{parts.username}:s3cret@{parts.path}?host={names}&port={ports}{further}"


async def test_a_silent_host_is_skipped(postgres_url: str, silent_port: int) -> None:
    """It costs its own deadline, once: later connections begin with the host that answered."""
    url = _behind(postgres_url, ("127.0.0.1", silent_port))
    with structlog.testing.capture_logs() as logged:
        opening = asyncio.create_task(open_database(url))
        await passes_until(lambda: bool(logged), 0.1)
        database = await opening
        writes = [database.write(lambda tx, name=f"A__{n}": tx.run(ADD, name)) for n in range(8)]  # type: ignore[misc]
        assert await asyncio.gather(*writes) == [1] * 8
        await database.close()
    failed = [line for line in logged if line["event"] == "database_host_failed"]
    assert [(line["host"], line["port"], line["reason"]) for line in failed] == [
        ("127.0.0.1", str(silent_port), "no answer within 3 s")
    ]
    assert "s3cret" not in str(logged)


async def test_the_deadline_is_divided(silent_port: int) -> None:
    """All hosts together keep within `database_timeout_seconds`."""
    url = f"postgresql://paydesk@127.0.0.1:{silent_port},localhost:{silent_port}/paydesk"
    opening = asyncio.create_task(open_database(url, timeout_seconds=1))
    await passes_until(opening.done, 0.1)
    with pytest.raises(Unavailable, match=r"no answer within 0\.5 s; localhost:\d+: no answer within 0\.5 s"):
        await opening


async def test_every_failure_is_in_the_message() -> None:
    """Where no host answers the message has each with its reason; the log has each once, however often it is tried."""
    port = free_port()
    url = f"postgresql://paydesk:s3cret@127.0.0.1:{port},localhost:{port}/paydesk"
    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            with pytest.raises(Unavailable) as raised:
                await open_database(url)
            assert str(raised.value).count(f":{port}: ") == 2
            assert "s3cret" not in str(raised.value)
    assert [line["host"] for line in logged].count("127.0.0.1") == 3
    assert "s3cret" not in str(logged)


async def _until_replicated(postgres_server: PostgresServer, standby: Path) -> None:
    lsn = postgres_server.sql("SELECT pg_current_wal_lsn()")
    connection = await asyncpg.connect(f"postgresql://postgres@/postgres?host={standby}")
    await until_found(lambda: connection.fetchval(f"SELECT pg_last_wal_replay_lsn() >= '{lsn}'::pg_lsn"))
    await connection.close()


async def test_a_standby_is_skipped(postgres_server: PostgresServer, postgres_url: str, standby: Path) -> None:
    """Also before the primary; with `any`, which is what a URL means that says nothing."""
    await _until_replicated(postgres_server, standby)
    for further in ("", "&target_session_attrs=any", "&target_session_attrs=read-write"):
        with structlog.testing.capture_logs() as logged:
            database = await open_database(_behind(postgres_url, (standby, 5432), further=further))
            await database.check_writable()
            await database.close()
        (line,) = [line for line in logged if line["event"] == "database_host_skipped"]
        assert (line["host"], line["port"]) == (str(standby), "5432")
        assert "does not match target_session_attrs" in line["reason"]


async def test_a_standby_that_was_asked_for_is_refused(
    postgres_server: PostgresServer, postgres_url: str, standby: Path
) -> None:
    """What the URL asks for is honoured, and a standby can't be written."""
    await _until_replicated(postgres_server, standby)
    with pytest.raises(ReadOnly, match="standby"):
        await open_database(_behind(postgres_url, (standby, 5432), further="&target_session_attrs=standby"))


async def test_notifications_use_the_primary(postgres_server: PostgresServer, postgres_url: str, standby: Path) -> None:
    """The connection that carries them passes a standby over too."""
    await _until_replicated(postgres_server, standby)
    url = _behind(postgres_url, (standby, 5432))
    database = await open_database(url)
    with structlog.testing.capture_logs() as logged:
        async with notifications_published(url, database):
            await until(lambda: database.signals.remote_connected)
    assert "notifications_connected" in [line["event"] for line in logged]
    await database.close()


async def test_the_url_says_how_long_a_connection_may_take(postgres_url: str, silent_port: int) -> None:
    """`connect_timeout` is the deadline of each host; 0 and a longer one than that of a round trip change nothing."""
    with moved_deadlines():
        for text, expected in (("2", "2"), ("0", "15"), ("99", "15")):
            url = f"postgresql://paydesk@127.0.0.1:{silent_port}/paydesk?connect_timeout={text}"
            opening = asyncio.create_task(open_database(url))
            await passes_until(opening.done, 0.1)
            with pytest.raises(Unavailable, match=f"no answer within {expected} s"):
                await opening
    database = await open_database(f"{postgres_url}&connect_timeout=10")
    await database.check_writable()
    await database.close()


@each(
    "parameter, message",
    [
        ("connect_timeout=soon", "connect_timeout in the database URL must be a whole number"),
        ("connect_timeout=-1", "connect_timeout in the database URL must be a whole number"),
        ("keepalives=1&keepalives_idle=30", "has keepalives, keepalives_idle, which Paydesk does not support"),
        ("tcp_user_timeout=5000", "has tcp_user_timeout, which Paydesk does not support"),
    ],
)
async def test_what_a_url_cannot_say_is_refused_in_words(parameter: str, message: str) -> None:
    """Before a connection: the server would only say that it has no such setting."""
    with pytest.raises(UnsafeDatabase, match=message) as raised:
        await open_database(f"postgresql://paydesk:s3cret@127.0.0.1/paydesk?{parameter}")
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://u:p@db/name", [("postgresql://u:p@db/name", "", "5432")]),
        ("postgresql:///name?host=/run/a", [("postgresql:///name?host=/run/a", "", "5432")]),
        (
            "postgresql://u:p%40@a,b:5433/name?sslmode=require",
            [
                ("postgresql://u:p%40@a/name?sslmode=require", "a", "5432"),
                ("postgresql://u:p%40@b:5433/name?sslmode=require", "b", "5433"),
            ],
        ),
        (
            "postgres://[::1]:1,[fe80::1]/name?port=5,6",
            [("postgres://[::1]:1/name?port=5", "[::1]", "5"), ("postgres://[fe80::1]/name?port=6", "[fe80::1]", "6")],
        ),
        (
            "postgresql:///name?host=/run/a,b&port=5432,5433&options=-c%20x%3D1",
            [
                ("postgresql:///name?host=%2Frun%2Fa&port=5432&options=-c+x%3D1", "/run/a", "5432"),
                ("postgresql:///name?host=b&port=5433&options=-c+x%3D1", "b", "5433"),
            ],
        ),
    ],
)
def test_hosts_of_a_url(url: str, hosts: list[tuple[str, str, str]]) -> None:
    """Each has a URL of its own with everything else that the URL says."""
    assert [(host.url, host.name, host.port) for host in hosts_of(url)] == hosts
