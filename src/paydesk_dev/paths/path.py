"""The unhappy paths of a sale, as `paths.toml` has them: the steps, and how the orders end."""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from paydesk.core import faults
from paydesk.core.faults import EDGES, Fault

TILL = ("sale", "press", "cancel", "refund", "kill", "start")
TERMINAL = (
    *("tap", "insert", "swipe", "phone", "scan", "choose", "pin", "press_cancel", "remove_card", "wait_for"),
    *("power_off", "power_on", "reboot", "take_paper", "load_paper", "go_offline", "go_online"),
)
ACTIONS: Mapping[str, tuple[str, ...]] = {
    "till": TILL,
    "terminal": TERMINAL,
    "operator": ("release", "revoke", "tips"),
    "another": ("sale",),
}
"""Who acts, and what each can do."""
OR = " or "


@dataclass(frozen=True, slots=True)
class Step:
    """A line of a path: a fault, something that a person does, or an event that is waited for."""

    line: str

    @property
    def words(self) -> list[str]:
        """Its words without `name=value`."""
        return [word for word in shlex.split(self.line) if "=" not in word]

    @property
    def fields(self) -> dict[str, Any]:
        """The values of `name=value`."""
        pairs = (word.partition("=") for word in shlex.split(self.line) if "=" in word)
        return {name: _json_or_text(value) for name, _, value in pairs}

    @property
    def fault(self) -> Fault | None:
        """The fault that the line adds, if it does."""
        actor, action, *_ = [*self.words, ""]
        is_fault = actor in EDGES and action not in ACTIONS.get(actor, ())
        return faults.parse(self.line) if is_fault else None


@dataclass(frozen=True, slots=True)
class Path:
    """What happens to a sale. `ends`: how each of its orders ends, in their order, as `status [detail]`."""

    id: str
    group: str
    title: str
    steps: tuple[Step, ...]
    till: str
    ends: tuple[str, ...]
    stands_for: str = ""
    person: bool = False
    """Whether a correct till may leave the sale to a person."""

    @property
    def moves_clock(self) -> bool:
        """Whether the clock is moved in it."""
        return any(one.words[0] == "clock" for one in self.steps)

    @property
    def retry_after(self) -> float:
        """The longest `Retry-After` that its faults answer."""
        faults = [fault for one in self.steps if (fault := one.fault)]
        delays = [one.delay_of(kind) for one in faults for kind in one.kinds if kind.name == "limited"]
        return max(filter(None, delays), default=0)

    @property
    def scene(self) -> Mapping[str, Any]:
        """What is special about its seller and its tokens."""
        return {name: value for one in self.steps if one.words[0] == "scene" for name, value in one.fields.items()}


def is_end(ending: str, status: str, detail: str) -> bool:
    """Return whether an order with this status and detail has ended so."""
    return any(one in (status, f"{status} {detail}") for one in ending.split(OR))


@cache
def all_paths() -> Mapping[str, Path]:
    """Return the paths by their ids, in the order of the file."""
    document = tomllib.loads(files(__package__).joinpath("paths.toml").read_text())
    return {one["id"]: _path(one) for one in document["path"]}


def _path(document: Mapping[str, Any]) -> Path:
    ends = document["ends"]
    steps = tuple(map(Step, document["steps"]))
    return Path(**{**document, "steps": steps, "ends": tuple([ends] if isinstance(ends, str) else ends)})


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
