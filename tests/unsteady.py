"""The places in the tests that depend on how fast the machine is: sleeps and comparisons of elapsed time.

A case may wait for an event, never for a time. A sleep in a poll loop waits for an event; a loop that fails at its
deadline only ends a hang.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns"}
SLEEPS = {"sleep", "wait_for_timeout"}
NAMED = re.compile(rf"\b(?:{'|'.join(SLEEPS | CLOCKS)})\(")
"""Every other text has no such place."""
LOOPS = (ast.While, ast.For, ast.AsyncFor)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def unsteady(folder: Path) -> dict[str, list[str]]:
    """Return the places of each file below `folder`: `path: ["12 sleep", "40 elapsed"]`."""
    texts = {str(file.relative_to(folder)): file.read_text() for file in sorted(folder.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items() if NAMED.search(text)}
    return {path: places for path, tree in trees.items() if (places := places_in(tree))}


def places_in(tree: ast.Module) -> list[str]:
    """Return the places in a module, each with its line and kind."""
    visitor = _Visitor()
    visitor.visit(tree)
    return visitor.places


class _Visitor(ast.NodeVisitor):
    def __init__(self) -> None:
        self.places: list[str] = []
        self._loops = 0
        self._times: set[str] = set()

    def visit(self, node: ast.AST) -> None:
        """Visit a node; functions have names and loops of their own."""
        if isinstance(node, FUNCTIONS):
            loops, times = self._loops, self._times
            self._loops, self._times = 0, set(_names_of_times(node))
            self.generic_visit(node)
            self._loops, self._times = loops, times
        elif isinstance(node, LOOPS) and _can_end(node):
            self._loops += 1
            self.generic_visit(node)
            self._loops -= 1
        else:
            self._judge(node)
            self.generic_visit(node)

    def _judge(self, node: ast.AST) -> None:
        if self._loops:
            return
        if isinstance(node, ast.Call) and _name(node.func) in SLEEPS and not _is_zero(node):
            self.places.append(f"{node.lineno} sleep")
        elif isinstance(node, ast.Assert) and any(map(self._compares_time, ast.walk(node.test))):
            self.places.append(f"{node.lineno} elapsed")

    def _compares_time(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Compare) and any(
            _reads_clock(part) or (isinstance(part, ast.Name) and part.id in self._times) for part in ast.walk(node)
        )


def _can_end(loop: ast.While | ast.For | ast.AsyncFor) -> bool:
    """Return whether the loop ends at an event: it has a condition, or leaves from inside."""
    leaves = any(isinstance(node, ast.Break | ast.Return | ast.Raise | ast.Assert) for node in ast.walk(loop))
    return leaves or (isinstance(loop, ast.While) and not isinstance(loop.test, ast.Constant))


def _names_of_times(function: ast.AST) -> Iterator[str]:
    """Yield the variables of the function that hold a time or a duration."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(map(_reads_clock, ast.walk(node.value))):
                yield from (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))


def _reads_clock(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and not node.args and _name(node.func) in CLOCKS


def _is_zero(call: ast.Call) -> bool:
    """Return whether the sleep only lets others run."""
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


if __name__ == "__main__":
    for path, places in unsteady(Path(__file__).parent).items():
        print(path, *places, sep="\n    ")  # noqa: T201
