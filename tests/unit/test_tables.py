"""A table as one case: no row is left out, and what fails is named."""

from __future__ import annotations

import asyncio

import pytest

from tables import each


def test_every_row_is_tried_and_each_failure_is_named() -> None:
    """Also of a table of tables."""
    seen = []

    @each("left", ["a", "b"])
    @each("right, expected", [(1, 1), (2, 1), (3, 1)], ids=["one", "two", "three"])
    def test(left: str, right: int, expected: int) -> None:
        seen.append(left * right)
        assert right == expected or left == "a"

    with pytest.raises(BaseExceptionGroup, match="2 rows failed: two; three") as raised:
        test()
    assert seen == ["a", "aa", "aaa", "b", "bb", "bbb"]
    assert raised.value.__notes__ == ["in the row 'b'"]


def test_a_failure_of_an_asynchronous_test_is_named() -> None:
    """One alone is raised as it is; `pytest.fail` is a failure too."""

    @each("value", [1, 2, 3])
    async def test(given: int, value: int) -> None:
        await asyncio.sleep(0)
        if given == value:
            pytest.fail("it is that one")

    with pytest.raises(pytest.fail.Exception, match="it is that one") as raised:
        asyncio.run(test(given=2))
    assert raised.value.__notes__ == ["in the row 2"]


def test_a_table_without_rows_is_refused() -> None:
    """It would pass without a test."""
    with pytest.raises(AssertionError, match="without rows"):
        each("value", [])


@each("value", [1, 2])
def test_fixtures_are_those_of_the_case(tmp_path_factory: pytest.TempPathFactory, value: int) -> None:
    """The case asks for what isn't in the table."""
    assert tmp_path_factory.getbasetemp().is_dir()
    assert value in {1, 2}
