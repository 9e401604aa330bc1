"""What a person will do at a terminal, planned beforehand: a till blocks while the buyer pays."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from threading import Lock, Thread
from typing import Any, Self

STEPS = (
    *("tap", "insert", "swipe", "phone", "scan", "choose", "pin", "press", "press_cancel", "remove_card"),
    *("power_off", "power_on", "reboot", "take_paper", "load_paper", "go_offline", "go_online", "wait_for"),
)
LOOK_AGAIN_SECONDS = 0.05


class Plan:
    """The steps of `Terminal`, `wait_for`, `pause` and `call`. Each returns the plan."""

    def __init__(self, terminal_id: str, act: Callable[..., object]) -> None:
        self._terminal_id, self._act = terminal_id, act
        self._steps, self._lock = deque[tuple[str, Callable[[], object]]](), Lock()
        self._thread: Thread | None = None
        self._end, self._error, self._is_stopped = math.inf, "", False

    def __getattr__(self, name: str) -> Callable[..., Self]:
        if name not in STEPS:
            raise AttributeError(f"a plan has no {name}; it has {', '.join(STEPS)}, pause and call")
        return lambda *arguments, **fields: self._add(name, lambda: self._act(name, *arguments, **fields))

    def pause(self, seconds: float) -> Self:
        """Wait for a time."""
        return self._add("pause", lambda: time.sleep(seconds))

    def call(self, function: Callable[[], object]) -> Self:
        """Call a function of the test."""
        return self._add("call", function)

    def left(self) -> float:
        """Return the seconds that a step may still wait: no limit before the end of the test."""
        return -1.0 if self._is_stopped else self._end - time.monotonic()

    def unfinished(self, seconds: float, is_over: Callable[[], bool]) -> str:
        """Return why a step was not possible, empty if all were.

        Steps that are left may wait for so long, unless nothing more can happen.
        """
        self._end = time.monotonic() + seconds
        while (thread := self._thread) is not None:
            thread.join(LOOK_AGAIN_SECONDS)
            if thread.is_alive() and self.left() > 0 and is_over():
                self._end = time.monotonic()
        return self._error

    def stop(self) -> None:
        """Do nothing more."""
        self._is_stopped = True

    def _add(self, name: str, work: Callable[[], Any]) -> Self:
        with self._lock:
            self._steps.append((name, work))
            if self._thread is None:
                self._thread = Thread(target=self._run, name=f"plan of {self._terminal_id}", daemon=True)
                self._thread.start()
        return self

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._steps or self._error or self._is_stopped:
                    self._thread = None
                    return
                name, work = self._steps.popleft()
            try:
                work()
            except Exception as error:  # noqa: BLE001 - whatever it is, the test fails with it
                self._error = "" if self._is_stopped else f"A planned step failed, {name}: {error}"
