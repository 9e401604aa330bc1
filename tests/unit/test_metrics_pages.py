"""The pages of `/metrics`: a sample's labels, and one page of several."""

from __future__ import annotations

import pytest

from paydesk.core import metrics
from paydesk.core.metrics import Counter, Gauge, Histogram, all_declared
from paydesk.platform.metrics.text import as_text, joined
from scraped import page_of


@pytest.fixture(autouse=True)
def _declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a case declares."""
    monkeypatch.setattr(metrics, "DECLARED", [])


def _declare() -> None:
    requests = Counter("paydesk_b_total", "Requests.", "code")
    requests.add("200", count=3)
    requests.add('4"\n# HELP paydesk_b_total x\\')
    seconds = Histogram("paydesk_a_seconds", "Time.", "operation", bounds=(1.0,))
    seconds.of("get").add(0.5)
    Counter("paydesk_d_total", "Without labels.").add()
    Gauge("paydesk_c", "Without samples.")


def test_without_a_process_samples_have_their_own_labels() -> None:
    """The page of one process."""
    _declare()
    page = page_of(as_text(all_declared()))
    assert page.processes == {None}
    assert page.total("paydesk_b_total", code="200") == 3
    assert page.total("paydesk_a_seconds_bucket", le="1.0") == page.total("paydesk_a_seconds_count") == 1


def test_samples_of_several_processes_are_together() -> None:
    """Each metric has one HELP and TYPE, and the samples of every process in the order of the pages."""
    _declare()
    page = page_of(joined(as_text(all_declared(), number) for number in ("1", "2", "3")))
    assert page.processes == {"1", "2", "3"}
    assert page.total("paydesk_b_total") == 12
    assert page.total("paydesk_b_total", process="2", code="200") == 3
    assert page.total("paydesk_d_total", process="3") == 1
    assert page.total("paydesk_a_seconds_sum") == 1.5


def test_a_page_joined_alone_is_the_same() -> None:
    """Metrics without samples, quotes, line breaks and backslashes in labels included."""
    _declare()
    text = as_text(all_declared(), "1")
    assert joined([text]) == text
    assert joined([]) == ""


def test_processes_of_two_versions_share_a_page() -> None:
    """During a deployment one has metrics that the other lacks, and another text for a metric."""
    old = "# HELP a The old text.\n# TYPE a gauge\na 1\n# HELP gone_total x\n# TYPE gone_total counter\ngone_total 2\n"
    new = '# HELP a The new text.\n# TYPE a gauge\na{process="2"} 4\n# HELP new x\n# TYPE new gauge\nnew 8\n'
    page = page_of(joined([old, new]))
    assert [page.total(name) for name in ("a", "gone_total", "new")] == [5, 2, 8]
    assert "The old text." in joined([old, new])
