"""Steps of a person at a terminal that are planned beforehand: a till blocks while the buyer pays."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Any, Self

from paydesk_dev.testing.errors import NotShown, line_of_test
from paydesk_dev.testing.steps import Steps

POLL_INTERVAL_SECONDS = 0.05
END_SECONDS_MAX = 3.0
"""How long a step that must not wait any longer may take to end."""


class Plan(Steps["Plan"]):
    """The steps of `Terminal`, `pause` and `call`. Each returns the plan. `terminal` makes one that does the steps."""

    def __init__(self, terminal_id: str, terminal: Callable[[], Steps[Any]]) -> None:
        self._terminal_id, self._terminal = terminal_id, terminal
        self._steps, self._lock = deque[tuple[str, Callable[[], object]]](), Lock()
        self._thread: Thread | None = None
        self._end, self._is_over, self._is_stopped = math.inf, Event(), False
        self._name, self._failure = "", ""
        self._raised: BaseException | None = None

    def wait_for(self, screen: str, *, seconds: float | None = None) -> Self:
        """Wait until the terminal shows the screen; `permitted`: until it may charge."""
        return self._add("wait_for", lambda: self._terminal().wait_for(screen, seconds=seconds))

    def pause(self, seconds: float) -> Self:
        """Wait for a time."""
        if not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
            raise ValueError(f"a pause is a number of seconds, from 0; it is {seconds!r}")
        return self._add("pause", lambda: self._is_over.wait(seconds))

    def call(self, function: Callable[[], object]) -> Self:
        """Call a function of the test. What it raises fails the test, or skips it, as if the test raised it."""
        if not callable(function):
            raise TypeError(f"call takes a function without arguments; it is {function!r}")
        return self._add("call", function)

    def seconds_left(self) -> float:
        """Return the seconds that a step may still wait: no limit before the end of the test."""
        return -1.0 if self._is_over.is_set() else self._end - time.monotonic()

    @property
    def error(self) -> str:
        """Why a step was not possible, and which steps were left out because of it; empty if all were possible."""
        if self._is_stopped or not self._failure:
            return ""
        left_out = ", ".join(name.partition(" ")[0] for name, _ in self._steps)
        return self._failure + (f" Not done after it: {left_out}." if left_out else "")

    @property
    def exception(self) -> BaseException | None:
        """What a function raised, or `error` as an exception; None if all steps were possible."""
        error = self.error
        return (self._raised or NotShown(error)) if error else None

    def finish(self, seconds: float, is_over: Callable[[], bool]) -> str:
        """Wait for the steps that are left, for these seconds or until nothing more can happen; return `error`."""
        self._end = time.monotonic() + seconds
        while (thread := self._thread) is not None and not self._is_over.is_set():
            thread.join(POLL_INTERVAL_SECONDS)
            if thread.is_alive() and (self.seconds_left() <= 0 or is_over()):
                self._is_over.set()
        if thread is not None:
            thread.join(END_SECONDS_MAX)
            if thread.is_alive():
                self._failure = f"The planned step {self._name} has not ended."
        return self.error

    def stop(self) -> None:
        """Do nothing more."""
        self._is_stopped = True
        self._is_over.set()

    def _step(self, action: str, *, at: str = "", times: int = 1, **fields: Any) -> Self:
        return self._add(action, lambda: self._terminal()._step(action, at=at, times=times, **fields))  # noqa: SLF001

    def _add(self, name: str, work: Callable[[], object]) -> Self:
        with self._lock:
            self._steps.append((f"{name} ({line_of_test()})", work))
            if self._thread is None:
                self._thread = Thread(target=self._run, name=f"plan of {self._terminal_id}", daemon=True)
                self._thread.start()
        return self

    def _run(self) -> None:
        __tracebackhide__ = True
        while True:
            with self._lock:
                if not self._steps or self._failure or self._is_stopped:
                    self._thread = None
                    return
                self._name, work = self._steps.popleft()
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - whatever it is, `pytest.fail` too, the test fails with it
                # Other steps raise in the plugin, where a traceback shows nothing of the test.
                self._raised = error if self._name.startswith("call ") else None
                self._failure = (
                    f"The planned step {self._name} failed: {type(error).__name__}: {error}".rstrip(". ") + "."
                )
