"""No circle of files is left: neither of imports nor of types."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def test_no_files_import_each_other() -> None:
    """Imports for types count, and those inside functions: what a file names, it needs to be understood."""
    graph = grimp.build_graph("paydesk", "paydesk_dev", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))
