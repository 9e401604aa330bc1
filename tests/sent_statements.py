"""Every statement of the modules is sent to PostgreSQL by some test: a run of the whole suite names those that are not.

Each process notes what its tests send; the one that the others report to compares that with what is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from paydesk.platform.storage.postgres.transaction import PostgresTransaction

_KITS_FILE = "the conformance kit has a SQLite file of its own"
NOT_SENT = {
    "console.sessions.MOVE": "only the clock of development moves sessions",
    "engine.orders.store.REATTACH": "only the simulated outcomes of development attach an order again",
    "engine.payments.jobs.RELEASE_ALL": "only a SQLite service has a single node, which releases all at its start",
    "paydesk_dev.conformance.acquirers.kit.NETS": _KITS_FILE,
    "paydesk_dev.conformance.acquirers.engine.SET_CURRENCY": _KITS_FILE,
    "paydesk_dev.conformance.acquirers.kit.JOBS": _KITS_FILE,
    "platform.storage.postgres.connections._END_BACKEND": "the driver's own: it has no transaction",
    "platform.storage.postgres.connections._SESSION": "the driver's own: it has no transaction",
    "platform.storage.postgres.pooler._SETTINGS": "the driver's own: it has no transaction",
    "platform.storage.postgres.notify.NOTIFY": "the driver's own: it has no transaction",
    "engine.terminals.store.VIRTUAL": "only a development service starts virtual terminals",
    "engine.webhooks.delivery.outcome_store.RELEASE_ALL": (
        "only a SQLite service has a single process, which releases all at its start"
    ),
}
"""The statements that no test sends in a transaction, each with its reason."""

sent: set[str] = set()
"""The texts that the tests of this process, and of those that reported to it, have sent."""
_unsent: list[str] = []


def install() -> None:
    """Note each statement from now on."""
    check = PostgresTransaction._check

    def noted(tx: PostgresTransaction, sql: str) -> None:
        sent.add(sql)
        check(tx, sql)

    PostgresTransaction._check = noted  # type: ignore[method-assign, assignment]  # the one place that every statement passes


def complaints(written: Mapping[str, str], sent: Collection[str], not_sent: Collection[str]) -> list[str]:
    """Return what is wrong: a statement that no test sent, or a listed one that is gone.

    A listed one may be sent by chance: some tests go on until something has happened.
    """
    # A part of other statements is sent as a part of them.
    unsent = {name for name, sql in written.items() if not any(sql in text for text in sent)}
    return [
        *(
            f"{name} was not sent to PostgreSQL by any test: mark one `on_postgres`"
            for name in sorted(unsent - {*not_sent})
        ),
        *(
            f"{name} is listed in sent_statements.NOT_SENT, but is gone"
            for name in sorted({*not_sent} - written.keys())
        ),
    ]


def _is_whole(config: pytest.Config) -> bool:
    """Return whether all tests ran that `make test` runs."""
    option = config.option
    is_chosen = (
        option.keyword or option.markexpr not in ("", "not slow") or option.collectonly or getattr(option, "lf", False)
    )
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not is_chosen


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report to the process that started this one; there, compare."""
    config: Any = session.config
    if hasattr(config, "workerinput"):
        config.workeroutput["sent_statements"] = sorted(sent)
    elif _is_whole(config) and session.exitstatus == pytest.ExitCode.OK:
        from written_statements import written_statements

        _unsent[:] = complaints(written_statements(), sent, NOT_SENT)
        if _unsent:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take a process's report."""
    sent.update(getattr(node, "workeroutput", {}).get("sent_statements", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what is wrong."""
    for line in _unsent:
        terminalreporter.write_line(line, red=True)
