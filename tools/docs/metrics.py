"""The page of metrics: how Prometheus reads them, and a table of all that the code declares."""

from __future__ import annotations

import paydesk.service.serve  # noqa: F401 - the modules of a node declare their metrics
from paydesk.core.metrics import all_declared
from paydesk.platform.metrics.pages import PROCESSES, SILENT
from paydesk.platform.process.siblings import ANSWER_SECONDS_MAX
from tools.docs.markdown import page, table

_WAIT = f"{ANSWER_SECONDS_MAX:g} s"
_HEAD = f"""\
# Metrics

<!-- Written by `make generate` from `tools/docs/metrics.py` and the metrics that modules declare; do not edit. -->

`GET /metrics` says what a node does, in the text format of [Prometheus](https://prometheus.io/docs/): on the operators'
listener alone, with a token of its own. Nothing there is a secret, and no label has an id.

## Connect Prometheus

**Create a token** on the node, for the user that runs `paydesk serve`:

```text
umask 077
openssl rand -hex -out /etc/paydesk/metrics-token 32
chown paydesk /etc/paydesk/metrics-token
```

**Name it in the settings**: `metrics_token = "file:/etc/paydesk/metrics-token"`, or `env:NAME` for a variable of the
environment. Restart the node; with `--processes` SIGHUP is enough, also for a new token. `paydesk dev` needs none.

**Give Prometheus the same token**, in a file that only it can read:

```yaml
scrape_configs:
  - job_name: paydesk
    scrape_timeout: 5s
    authorization:
      credentials_file: /etc/prometheus/paydesk-token
    static_configs:
      - targets: ["127.0.0.1:8378"]
```

`curl --oauth2-bearer TOKEN http://127.0.0.1:8378/metrics` shows the page, or what to change:

| Response | Reason |
| --- | --- |
| 401 `unauthorized` | the token is missing or another; or the service has none: then `details` names `metrics_token` |
| 404 `not_found` | this is the clients' listener: use `operator_listen` |
| 421 `misdirected_request` | the name in the target is not known: add it to `host_names` |

The token is sent as it is: on the network between machines put TLS before the listener, or read it on the node itself.

## Nodes

Read each node at its own address, not through a load balancer: a page is of one node. Prometheus adds `instance`, which
says of which. Sum over the nodes in the query:

```text
sum by (operation) (rate(paydesk_http_requests_total[5m]))
```

All counters are of the processes that run: a restart sets them to 0, which `rate` and `increase` see as a reset.

## Processes

With `paydesk serve --processes N` a page has all N processes, whichever of them gets the connection. Each sample has
the label `process`, the number that log lines have too. A process without siblings has no such label. Queries that sum
need no change.

- **A process that does not answer within {_WAIT} is left out**, as one is that does not run yet. It delays
  the page by that time at most. `{SILENT.name}` counts such processes, and `{PROCESSES.name}` is N:
  these two have no label `process`.
- **A process that was killed and replaced** starts at 0 under the same number. What the old one counted since the last
  page is lost.
- **A deployment** (SIGHUP to the parent) replaces each process. When its successor is ready, the numbers of the old one
  vanish, though it still drains, and those of the successor start at 0. Prometheus sees a reset.
- **A page that an old process still serves while it drains** has its own numbers alone, and all siblings are silent. So
  alert on silent processes after minutes, not at once.
- **A parent of version 0.2.0** passes nothing on after it has deployed this version: a page takes {_WAIT} and
  has one process. Replace the parent too.
- **Two parents on one port** (`--beside`) answer each for their own processes.
- **If the process that gets the connection is stopped**, there is no page, and `up` is 0.

## All metrics

A histogram has samples with `_bucket`, `_sum` and `_count`. Times are in seconds."""


def page_of_metrics() -> str:
    """Return the page of all metrics, with type, labels and meaning."""
    rows = (
        (
            f"`{one.name}`",
            type(one).__name__.lower(),
            ", ".join(f"`{label}`" for label in one.labels) or "none",
            one.text,
        )
        for one in all_declared()
    )
    return page(_HEAD, table(("Metric", "Type", "Labels", "Meaning"), rows))
