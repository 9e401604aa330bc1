"""Every deliberate defect can still be made: the text that it replaces is there, and so is the test that notices."""

from __future__ import annotations

import pytest
from mutant import Mutant
from mutants import MUTANTS, ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.defect)
def test_a_mutant_applies(mutant: Mutant) -> None:
    """To one place of its file."""
    text = (ROOT / "src" / "paydesk" / mutant.file).read_text()
    assert text.count(mutant.before) == 1
    assert mutant.after != mutant.before
    assert (ROOT / mutant.test).is_file()
