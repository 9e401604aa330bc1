"""The page of log events: what the code logs, found in its syntax trees, with the sentences of `log_events.toml`."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, get_args

import paydesk
from paydesk.platform.operator_events import Kind
from tools.docs.markdown import page, table

SOURCE = Path(paydesk.__file__).parents[1]
SENTENCES = Path(__file__).with_suffix(".toml")
DOCS = Path(__file__).parents[2] / "docs"
LEVELS = {"critical": "critical", "error": "error", "exception": "error", "warning": "warning", "info": "info"}
"""Methods of loggers, the most severe first, and the levels of their lines. `debug` is never written."""
LOGGERS = ("log", "_log")
Function = ast.FunctionDef | ast.AsyncFunctionDef
RECORDED_ONLY = ("paydesk/engine/payments/outcomes.py", "paydesk/platform/operator_events.py")
"""What the first one reports about orders is recorded in their transactions, and not logged."""

_HEAD = """\
# Log events

<!-- Written by `make generate` from the calls of loggers in `src/` and `tools/docs/log_events.toml`; do not edit. -->

Every event that Paydesk logs, the most severe first: its fields, what has happened, and **what to do**. A line also has
`timestamp`, `level` and `event`, `process` on nodes with several processes, and `exception` with a traceback; where
they are known, `order`, `seller_id`, `terminal_id` and `request_id`. Names of events and of fields are stable. Lines of
libraries have a sentence as their event, and `logger`. [The log](operations.md#the-log) explains the fields of
requests."""
_KNOWN = frozenset({"order", "seller_id", "terminal_id", "request_id"})
"""The fields that the head explains for all events."""

_TITLES = {
    "critical": ("Critical", "The process ends."),
    "error": ("Error", "A person has to look at it."),
    "warning": ("Warning", "Something failed and is tried again, or a client misuses the service."),
    "info": ("Info", "How the service runs."),
    "kit": ("Development kit", "Logged by `paydesk dev`, virtual terminals and the proxy, never by `paydesk serve`."),
}


@dataclass(slots=True)
class Event:
    """What the code says of an event."""

    levels: set[str] = field(default_factory=set)
    fields: set[str] = field(default_factory=set)
    is_open: bool = False
    """Whether it has fields whose names the syntax tree does not show."""
    of_kit: bool = True

    @property
    def level(self) -> str:
        """Return the most severe of its levels."""
        return next(level for level in LEVELS if level in self.levels)


def sentences() -> dict[str, dict[str, Any]]:
    """Return `happened`, `do` and the `fields` that the syntax does not show, of each event."""
    return tomllib.loads(SENTENCES.read_text(encoding="utf-8"))


def page_of_log_events() -> str:
    """Return docs/log-events.md."""
    events, said, parts = collected(), sentences(), [_HEAD]
    for section, (title, text) in _TITLES.items():
        names = sorted(name for name, event in events.items() if section == ("kit" if event.of_kit else event.level))
        rows = ((_named(one, events[one]), _fields(events[one], said[one]), _words(one, said[one])) for one in names)
        parts += [f"## {title}", text, table(("Event", "Fields", "What happened, and **what to do**"), rows)]
    return page(*parts)


def _named(name: str, event: Event) -> str:
    others = [level for level in dict.fromkeys(LEVELS.values()) if level in event.levels]
    return f"`{name}`" + (f" ({' or '.join(others)})" if len(others) > 1 or event.of_kit else "")


def _fields(event: Event, said: dict[str, Any]) -> str:
    return ", ".join(f"`{name}`" for name in sorted({*event.fields, *said.get("fields", ())} - _KNOWN))


def _words(name: str, said: dict[str, Any]) -> str:
    if name in get_args(Kind):
        is_security = f"| `{name}` |" in (DOCS / "operators.md").read_text(encoding="utf-8")
        return f"[Event]({'operators.md#security-events' if is_security else 'operations.md#unknown-outcomes'})."
    return f"{said['happened']} **{said['do']}**" if said["do"] != "Nothing." else said["happened"]


@cache
def collected() -> dict[str, Event]:
    """Return every event that the code logs. Raises `LookupError` for a call whose event cannot be found."""
    source, events = Source(), dict[str, Event]()
    for file, call, within in source.calls:
        for method, name in _logged(call, within, source):
            event = events.setdefault(name, Event())
            event.levels.add(LEVELS[method])
            event.of_kit &= file.startswith("paydesk_dev/")
            names = set(_keywords(call, within, source))
            event.is_open |= "" in names
            event.fields |= names - {"", "exc_info"}
    return events


class Source:
    """The syntax trees of the code: what is needed to follow a name to its values."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ast.Call, Function | None]] = []
        """Every call, with its file and the function in which it is."""
        self.called: dict[str, list[tuple[ast.Call, Function | None]]] = {}
        self.assigned: dict[str, list[ast.expr]] = {}
        """The values of attributes, of classes and of objects, by name."""
        self.returned: dict[str, list[tuple[ast.expr, Function]]] = {}
        self.kinds: set[str] = set()
        """The events for operators in files that make some which are logged."""
        for file in sorted(SOURCE.glob("paydesk*/**/*.py")):
            name, text = file.relative_to(SOURCE).as_posix(), file.read_text("utf-8")
            tree = ast.parse(text)
            self._read(name, tree, None)
            if "OperatorEvent(" in text and name not in RECORDED_ONLY:
                self.kinds |= {kind for kind in get_args(Kind) if f'"{kind}"' in text}

    def _read(self, file: str, node: ast.AST, within: Function | None) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call):
                self.calls.append((file, child, within))
                self.called.setdefault(_name(child), []).append((child, within))
            elif isinstance(child, ast.Assign) and (isinstance(node, ast.ClassDef) or within is not None):
                for target, value in _assignments(child):
                    if isinstance(node, ast.ClassDef) or isinstance(target, ast.Attribute):
                        self.assigned.setdefault(_name(target), []).append(value)
            elif isinstance(child, ast.Return) and child.value is not None and within is not None:
                self.returned.setdefault(within.name, []).append((child.value, within))
            self._read(file, child, child if isinstance(child, Function) else within)


def _logged(call: ast.Call, within: Function | None, source: Source) -> Iterator[tuple[str, str]]:
    """Yield the methods and the events of a call of a logger."""
    for function in _branches(call.func):
        if isinstance(function, ast.Attribute) and function.attr in LEVELS and _name(function.value) in LOGGERS:
            names = list(_texts(call.args[0], within, source))
            if not names:
                raise LookupError(f"the event of {ast.unparse(call)} cannot be found")
            yield from ((function.attr, name) for name in names)


def _texts(value: ast.expr, within: Function | None, source: Source) -> Iterator[str]:
    """Yield the texts that an expression may have: a parameter those that are passed, an attribute all of its name."""
    for one in _branches(value):
        parameters = [parameter.arg for parameter in within.args.args if parameter.arg != "self"] if within else []
        if isinstance(one, ast.Constant):
            yield from [one.value] if isinstance(one.value, str) and one.value else []
        elif isinstance(one, ast.Name) and within is not None and one.id in parameters:
            for call, caller in source.called.get(within.name, ()):
                for argument in call.args[parameters.index(one.id) :][:1]:
                    yield from _texts(argument, caller, source)
        elif _name(one) == "kind":
            yield from sorted(source.kinds)
        elif isinstance(one, ast.Attribute):
            for assigned in source.assigned.get(one.attr, ()):
                yield from _texts(assigned, None, source)


def _keywords(call: ast.Call, within: Function | None, source: Source) -> Iterator[str]:
    """Yield the names of a call's keywords, and "" if there are some that cannot be found."""
    for keyword in call.keywords:
        yield from [keyword.arg] if keyword.arg is not None else _keys(keyword.value, within, source)


def _keys(value: ast.expr, within: Function | None, source: Source) -> Iterator[str]:
    """Yield the keys of what may be one of several dictionaries, and "" if there are some that cannot be found."""
    for one in _branches(value):
        name = _name(one)
        if isinstance(one, ast.Dict):
            for key, nested in zip(one.keys, one.values, strict=True):
                yield from _keys(nested, within, source) if key is None else [str(getattr(key, "value", ""))]
        elif within is not None and within.args.kwarg is not None and within.args.kwarg.arg == name:
            for call, caller in source.called.get(within.name, ()):
                yield from _keywords(call, caller, source)
        elif isinstance(one, ast.Name) and within is not None:
            yield from _keys_of_local(name, within, source)
        elif found := [*((each, None) for each in source.assigned.get(name, ())), *source.returned.get(name, ())]:
            for each, where in found:
                yield from _keys(each, where, source)
        else:
            yield ""


def _keys_of_local(name: str, within: Function, source: Source) -> Iterator[str]:
    """Yield the keys of a variable; "" if it is not assigned in the function or is extended by a call."""
    is_assigned = False
    for node in ast.walk(within):
        for target, value in _assignments(node):
            if _name(target) == name:
                is_assigned = True
                yield from _keys(value, within, source)
            elif isinstance(target, ast.Subscript) and _name(target.value) == name:
                yield str(getattr(target.slice, "value", ""))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "update":
            yield from [""] if _name(node.func.value) == name else []
    if not is_assigned:
        yield ""


def _assignments(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each target of an assignment with its value."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            yield from zip(targets, values, strict=True)
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
            yield from ((target, value) for target in targets)
        case ast.Assign(targets=targets, value=value):
            yield from ((target, value) for target in targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value


def _branches(value: ast.expr) -> tuple[ast.expr, ...]:
    return (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)


def _name(value: ast.AST) -> str:
    """Return the last name of `a.b.c`, or of what is called by `a.b.c()`."""
    match value:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return str(name)
        case ast.Call(func=called):
            return _name(called)
        case _:
            return ""
