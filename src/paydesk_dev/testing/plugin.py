"""The plugin of pytest: a service for each worker, and for each test a seller, a till's tokens and a terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from paydesk_dev.testing.clock import Clock
    from paydesk_dev.testing.faults import Faults
    from paydesk_dev.testing.paydesk import Paydesk
    from paydesk_dev.testing.service import Service
    from paydesk_dev.testing.terminal import Terminal
    from paydesk_dev.testing.webhooks import Webhooks

WAIT_SECONDS, WAIT_SECONDS_MAX = "10", 86_400
SELLERS = pytest.StashKey[list[Any]]()
"""The `Paydesk` objects of a test."""
DATABASE_URL = "PAYDESK_DATABASE_URL"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and settings."""
    group = parser.getgroup("paydesk", "Paydesk, the service of in-person payments")
    group.addoption("--paydesk-credentials", metavar="FILE", help="Use the running `paydesk dev` that wrote this file.")
    group.addoption("--paydesk-wait", metavar="SECONDS", help=f"How long a wait takes. [{WAIT_SECONDS}]")
    parser.addini("paydesk_credentials", "As --paydesk-credentials, relative to the root folder.")
    parser.addini("paydesk_wait", "As --paydesk-wait.", default=WAIT_SECONDS)
    parser.addini(
        "paydesk_shared_clock", "With --paydesk-credentials, tests with paydesk_clock: error or skip.", default="error"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and refuse wrong settings."""
    config.addinivalue_line(
        "markers", "paydesk(country, currency, access_seconds): the seller and the tokens of the fixture paydesk"
    )
    _wait_seconds(config)
    if (choice := config.getini("paydesk_shared_clock")) not in ("error", "skip"):
        raise pytest.UsageError(f"paydesk_shared_clock must be error or skip; it is {choice!r}")


def _wait_seconds(config: pytest.Config) -> float:
    """Return how long a wait takes. Raises `UsageError`."""
    option = config.getoption("--paydesk-wait")
    name, value = ("paydesk_wait", config.getini("paydesk_wait")) if option is None else ("--paydesk-wait", option)
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= WAIT_SECONDS_MAX:
        raise pytest.UsageError(f"{name} must be a number of seconds, from 0 to {WAIT_SECONDS_MAX}; it is {value!r}")
    return seconds


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail the test for a planned step that was not possible, a fault that never fired, and a receiver's failure."""
    __tracebackhide__ = True
    result = yield
    for paydesk in item.stash.get(SELLERS, ()):
        paydesk.check()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the section *paydesk* to the report of a failed test."""
    report, sellers = (yield), item.stash.get(SELLERS, ())
    if report.failed and call.excinfo is not None and sellers:
        from paydesk_dev.testing.report import describe

        report.sections.append(("paydesk", "\n".join(map(describe, sellers))))
    return report


@pytest.fixture(scope="session")
def paydesk_service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Service, None, None]:
    """The service: of this worker alone, or the running one of `--paydesk-credentials`."""
    __tracebackhide__ = True
    from paydesk_dev.testing.service import Service

    config = request.config
    file = config.getoption("--paydesk-credentials")
    if file is None and (given := str(config.getini("paydesk_credentials"))):
        file = config.rootpath / given
    if file is not None:
        yield Service.of_file(Path(file))
        return
    service = Service.start(tmp_path_factory.mktemp("paydesk"), environment=_database(config))
    yield service
    service.stop()


def _database(config: pytest.Config) -> dict[str, str]:
    """Return the variable with the database of this worker, if one is set."""
    url = os.environ.get(DATABASE_URL)
    if url is not None and "{worker}" not in url:
        pytest.fail(
            f"{DATABASE_URL} has no {{worker}}: two services on one database would share clock and terminals. Write it"
            " into the name of the database, such as postgresql:///paydesk_{worker}, or unset the variable.",
            pytrace=False,
        )
    worker: str = getattr(config, "workerinput", {}).get("workerid", "main")
    return {} if url is None else {DATABASE_URL: url.replace("{worker}", worker)}


@pytest.fixture
def paydesk_sellers(
    request: pytest.FixtureRequest, paydesk_service: Service
) -> Generator[Callable[..., Paydesk], None, None]:
    """Make sellers, each with an application of its own: `paydesk_sellers(country="CHL", currency="CLP")`."""
    from paydesk_dev.testing.paydesk import Paydesk

    seconds, sellers = _wait_seconds(request.config), list[Paydesk]()
    request.node.stash[SELLERS] = sellers
    # Without the parameters, which may look like a card number.
    name = getattr(request.node, "originalname", None) or request.node.name

    with ExitStack() as stack:

        def make(**fields: Any) -> Paydesk:
            __tracebackhide__ = True
            sellers.append(Paydesk.create_in(paydesk_service, seconds, **{"name": name[:60], **fields}))
            stack.callback(sellers[-1].close)
            return sellers[-1]

        yield make


@pytest.fixture
def paydesk(request: pytest.FixtureRequest, paydesk_sellers: Callable[..., Paydesk]) -> Paydesk:
    """A fresh seller and application, with tokens and a subscription."""
    __tracebackhide__ = True
    markers = list(request.node.iter_markers("paydesk"))
    if any(marker.args for marker in markers):
        pytest.fail('the mark paydesk takes names, such as paydesk(country="CHL", currency="CLP")', pytrace=False)
    # The closest is the first one.
    return paydesk_sellers(**{name: value for marker in markers[::-1] for name, value in marker.kwargs.items()})


@pytest.fixture
def paydesk_terminal(paydesk: Paydesk) -> Terminal:
    """A private terminal of `paydesk`, played by the test."""
    return paydesk.terminal()


@pytest.fixture
def paydesk_faults(paydesk: Paydesk) -> Faults:
    """Faults of `paydesk` alone."""
    return paydesk.faults


@pytest.fixture
def paydesk_webhooks(paydesk: Paydesk) -> Webhooks:
    """Notifications of `paydesk` alone."""
    return paydesk.webhooks


@pytest.fixture
def paydesk_clock(request: pytest.FixtureRequest, paydesk_service: Service, paydesk: Paydesk) -> Clock:
    """The clock of the worker's own service."""
    from paydesk_dev.testing.clock import Clock

    if not paydesk_service.is_own:
        refusal = "the clock of a shared service is not moved: tests beside this one would see it"
        if request.config.getini("paydesk_shared_clock") == "skip":
            pytest.skip(refusal)
        pytest.fail(f"{refusal}. Leave out --paydesk-credentials, or set paydesk_shared_clock = skip.", pytrace=False)
    return Clock(paydesk)
