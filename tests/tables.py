"""A table of inputs as one case: every row is tried, and a failure names each row that failed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

Test = Callable[..., Any]
Failed = (Exception, pytest.fail.Exception)

LABEL_CHARACTERS_MAX = 100


def each(names: str, rows: Iterable[Any], ids: Iterable[str] | Callable[[Any], Any] = repr) -> Callable[[Test], Test]:
    """Call the test once a row, all in one case, where `pytest.mark.parametrize` makes a case of each row.

    For rows that share a promise, and leave nothing behind that the next row would see. A defect may leave something:
    then later rows fail too, and the first one named is the cause.
    """
    parameters = [name.strip() for name in names.split(",")]
    values = [dict(zip(parameters, row if len(parameters) > 1 else (row,), strict=True)) for row in rows]
    assert values, "a table without rows tests nothing"
    labels = [", ".join(map(str, map(ids, row.values()))) for row in values] if callable(ids) else ids
    table = [(label[:LABEL_CHARACTERS_MAX], row) for label, row in zip(labels, values, strict=True)]

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def in_one_case(**fixtures: Any) -> None:
            with _failures() as failed:
                for label, row in table:
                    try:
                        test(**fixtures, **row)
                    except Failed as error:
                        failed[label] = error

        @functools.wraps(test)
        async def in_one_async_case(**fixtures: Any) -> None:
            with _failures() as failed:
                for label, row in table:
                    try:
                        await test(**fixtures, **row)
                    except Failed as error:
                        failed[label] = error

        wrapper: Test = in_one_async_case if inspect.iscoroutinefunction(test) else in_one_case
        signature = inspect.signature(test)
        others = [one for name, one in signature.parameters.items() if name not in parameters]
        wrapper.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return wrapper

    return decorate


@contextmanager
def _failures() -> Iterator[dict[str, BaseException]]:
    """Collect what failed, by the names of the rows; raise it at the end."""
    failed: dict[str, BaseException] = {}
    yield failed
    for label, error in failed.items():
        error.add_note(f"in the row {label}")
    if len(failed) == 1:
        raise next(iter(failed.values()))
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} rows failed: {'; '.join(failed)}", list(failed.values()))
