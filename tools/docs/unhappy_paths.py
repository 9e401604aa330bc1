"""The page of unhappy paths: a table for each group, made of the file that is played."""

from __future__ import annotations

from itertools import groupby

from paydesk_dev.paths.path import Path, all_paths
from tools.docs.markdown import page, table

_HEAD = """\
# Unhappy paths of a sale

<!-- Written by `make generate` from `src/paydesk_dev/paths/paths.toml`; changes made here are lost. -->

What a till meets sooner or later, and what a correct one does. Each path can be played for your till:

```sh
paydesk scenario list
paydesk scenario run create-answer-lost
paydesk scenario run create-answer-lost -- python3 examples/till/till.py
```

The second command asks you to sell, and is the buyer and the network itself. The third runs a program for each thing
that the till does. Both exit 1 if the order ends otherwise, or if the buyer is charged twice. [A till that passes
all](../examples/till/README.md) is there to copy, with its tests; [Test a till with pytest](testing.md) has fixtures.

A step is a [fault](faults.md), or what the till, the buyer at the terminal or an operator does. `fired` waits for a
fault, `quiet` until the till has given up, `asked` for a request of the till, `answered` for a status that it got,
`order` and `event` for a status and a notification; `release` ends a fault; `clock` moves the time. `webhook * reset
times=0` is there so that no notification helps the till."""


def page_of_paths() -> str:
    """Return docs/unhappy-paths.md."""
    groups = groupby(all_paths().values(), lambda path: path.group)
    head = ("Path", "Steps", "A correct till", "The order ends", "It stands for")
    return page(_HEAD, *(f"## {group}\n\n{table(head, map(_row, paths))}" for group, paths in groups))


def _row(path: Path) -> tuple[str, ...]:
    steps = ", ".join(f"`{step.line}`" for step in path.steps)
    ends = ", then ".join(f"`{one}`".replace(" or ", "` or `") for one in path.ends) or "there is none"
    return f"`{path.id}`: {path.title}", steps, path.till, ends, path.stands_for
