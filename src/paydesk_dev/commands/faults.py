"""`paydesk faults`: what goes wrong on purpose in `paydesk dev`. `paydesk webhooks fault` names its successor."""

from __future__ import annotations

import inspect
import shlex
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from paydesk.commands.client.client import Answer, Service, given, segment
from paydesk.commands.client.command import command
from paydesk.commands.client.failure import WrongUsage
from paydesk.commands.client.options import group, show, show_list
from paydesk.commands.nouns import webhooks
from paydesk.core import faults
from paydesk.core.faults import ANY_REQUEST, EDGES, MATCHES, FaultRefused

app = group("Faults: let requests and webhooks go wrong on purpose, in `paydesk dev` only.")

PATH = "/dev/faults"
ANSWER_SECONDS = 30
EXAMPLE_ID = "FLT01J67CQQH5904WDBVZEM4JMEP3"
COLUMNS = ("id", "edge", "request", "kind", "matched", "times", "fired")
ADD_EXAMPLES = (
    "paydesk faults add till create_order answer_lost",
    "paydesk faults add till 'GET /v1/orders/{id}' slow:5s --every 3 --seed 7 --reference s1",
    "paydesk faults add till get_order altered --set /status=weird --times 3",
    "paydesk faults add terminal device_acknowledge reset --terminal PAYDESK_VIRTUAL__C2AFE1BB4D93",
    "paydesk faults add acquirer payment decline:insufficient_amount --every 20 --times 0",
    "paydesk faults add webhook order.processed twice",
)

FaultId = Annotated[str, typer.Argument(metavar="FAULT_ID", help="A fault, see `paydesk faults list`.")]
Edge = Annotated[str | None, typer.Option(metavar="EDGE", help=f"Only those of an edge: {', '.join(EDGES)}.")]
Application = Annotated[str | None, typer.Option(metavar="CLIENT_ID", help="Only those of an application.")]
Match = Annotated[str | None, typer.Option(metavar="VALUE", help="Only requests with this one.")]


def add(  # noqa: PLR0913 - one parameter for each option
    service: Service,
    edge: Annotated[str, typer.Argument(help="till, terminal, acquirer or webhook: what is disturbed.")],
    request: Annotated[str, typer.Argument(help="An operation, `METHOD /path/{id}`, an action, or `*`.")],
    kind: Annotated[str, typer.Argument(help="What goes wrong, such as `answer_lost` or `slow:5s`.")],
    *,
    every: Annotated[int | None, typer.Option(metavar="N", help="One of every N. [default: each]")] = None,
    times: Annotated[int | None, typer.Option(metavar="N", help="At most N firings; 0: no limit. [default: 1]")] = None,
    skip: Annotated[int | None, typer.Option(metavar="N", help="After N that pass.")] = None,
    delay: Annotated[str | None, typer.Option(metavar="TIME", help="5s, 0.5s or 2m.")] = None,
    seed: Annotated[int | None, typer.Option(help="Choose which one of every N, the same in each run.")] = None,
    per: Annotated[str | None, typer.Option(help="all, or key: the first ones under each key.")] = None,
    status: Annotated[int | None, typer.Option(help="The status of `error` and `error_after`.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="POINTER=VALUE", help="For `altered`; may be repeated.")
    ] = None,
    **match: str | None,
) -> Answer:
    """Let matching requests go wrong: the next one, or as the options say."""
    named = {name: value for name, value in match.items() if value is not None}
    body: dict[str, Any] = {"edge": edge, "request": request, "kind": kind, "every": every, "times": times}
    body |= {"skip": skip, "seed": seed, "per": per, "status": status, "match": named or None}
    try:
        body["delay"] = None if delay is None else faults.seconds_of(delay)
        body["set"] = faults.typed(f"set={one}" for one in set_ or ())["set"] or None
    except FaultRefused as error:
        raise WrongUsage(f"{error}.") from None
    return service.post(PATH, body)


_signature = inspect.signature(add, eval_str=True)
_names = dict.fromkeys(name for names in MATCHES.values() for name in names)
_options = (inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Match) for name in _names)
add.__signature__ = _signature.replace(  # type: ignore[attr-defined]
    parameters=[*list(_signature.parameters.values())[:-1], *_options]
)
command(app, "add", *ADD_EXAMPLES)(add)


@command(app, "list", "paydesk faults list", "paydesk faults list --edge till --json")
def list_faults(service: Service, edge: Edge = None, application: Application = None, *, as_json: bool) -> None:
    """List the faults, with how often each has fired."""
    _show_all(service.get(PATH, {"edge": edge, "application": application}), as_json=as_json)


@command(app, "show", f"paydesk faults show {EXAMPLE_ID}", f"paydesk faults show {EXAMPLE_ID} --wait 30 --fired 2")
def show_fault(
    service: Service,
    fault_id: FaultId,
    wait: Annotated[int, typer.Option(min=0, max=55, metavar="SECONDS", help="Wait until it has fired.")] = 0,
    fired: Annotated[
        int, typer.Option(min=1, max=faults.TIMES_MAX, metavar="N", help="The number of firings, for --wait.")
    ] = 1,
) -> Answer:
    """Show a fault with its firings."""
    path = f"{PATH}/{segment(fault_id)}?{urlencode({'wait': wait, 'fired': fired})}"
    return service.request("GET", path, timeout_seconds=wait + ANSWER_SECONDS)


@command(app, "release", f"paydesk faults release {EXAMPLE_ID}")
def release(service: Service, fault_id: FaultId) -> Answer:
    """Release what a fault holds."""
    service.post(f"{PATH}/{segment(fault_id)}/release")
    return {"id": fault_id, "released": True}


@command(app, "clear", "paydesk faults clear", f"paydesk faults clear {EXAMPLE_ID}", "paydesk faults clear --edge till")
def clear(
    service: Service,
    fault_id: Annotated[str | None, typer.Argument(metavar="FAULT_ID", help="[default: all]")] = None,
    edge: Edge = None,
    application: Application = None,
    *,
    as_json: bool,
) -> None:
    """Remove a fault, or all of them, and print them with their firings."""
    if fault_id is None:
        query = urlencode(given({"edge": edge, "application": application}))
        _show_all(service.request("DELETE", f"{PATH}?{query}" if query else PATH), as_json=as_json)
        return
    if edge or application:
        raise WrongUsage("Give either the id of a fault, or --edge and --application.")
    show(service.request("DELETE", f"{PATH}/{segment(fault_id)}"), as_json=as_json)


@webhooks.app.command("fault", hidden=True, context_settings={"ignore_unknown_options": True})
def retired(words: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Name the command that does what this one did."""
    kind, *options = words or ["KIND"]
    line = f"paydesk faults {kind} --edge webhook"
    if kind not in ("list", "clear"):
        line = shlex.join(("paydesk", "faults", "add", "webhook", ANY_REQUEST, kind, *options, "--times", "0"))
        line += " --delay 10s" if kind in ("late", "out_of_order") and "--delay" not in options else ""
    raise WrongUsage(f"`paydesk webhooks fault` is now `paydesk faults`. Use: {line}")


def _show_all(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        show_list(answer, COLUMNS, as_json=True)
        return
    show_list({"data": [{**one, "fired": one["fired_count"]} for one in answer["data"]]}, COLUMNS, as_json=False)
