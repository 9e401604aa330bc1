"""The pages of `/metrics`: that of a process, and that of all processes of its node."""

from __future__ import annotations

from paydesk.core.metrics import Gauge, all_declared
from paydesk.platform.metrics.text import as_text, joined
from paydesk.platform.process.siblings import Siblings

PROCESSES = Gauge("paydesk_processes", "Processes of this node.")
SILENT = Gauge("paydesk_processes_silent", "Processes that this page lacks: they start, or did not answer in 1 s.")


def own(siblings: Siblings) -> str:
    """Return the page of this process. If it has siblings, each sample has its number."""
    return as_text(all_declared(), str(siblings.number) if siblings.count > 1 else "")


async def of_node(siblings: Siblings) -> str:
    """Return one page of this process and of the siblings that answer, and how many do not."""
    others = await siblings.ask()
    silent = siblings.count - 1 - len(others)
    with PROCESSES.including(lambda: {(): siblings.count}), SILENT.including(lambda: {(): silent}):
        counts = as_text((PROCESSES, SILENT))
    return joined((counts, own(siblings), *others))
