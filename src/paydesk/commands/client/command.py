"""The decorator of commands that make requests to a running service."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from pathlib import Path
from typing import Any, TypeVar

import typer

from paydesk.commands.client.client import Answer, operator_service
from paydesk.commands.client.options import AsJson, CredentialsFile, examples, note, show

Work = TypeVar("Work", bound=Callable[..., Answer | tuple[Answer, str] | None])

_LAST = (
    Parameter("as_json", Parameter.KEYWORD_ONLY, annotation=AsJson, default=False),
    Parameter("credentials", Parameter.KEYWORD_ONLY, annotation=CredentialsFile, default=None),
)


def command(app: typer.Typer, name: str, *lines: str) -> Callable[[Work], Work]:
    """Make the function a command with the options `--json` and `--credentials`, and these examples.

    Its first parameter is a client of the service. It returns the answer to print, perhaps with a note for people; if
    it has a parameter `as_json`, it prints the answer itself.
    """

    def add(work: Work) -> Work:
        _, *own = inspect.signature(work, eval_str=True).parameters.values()
        options = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in own if parameter.name != "as_json"]

        def run(*, as_json: bool, credentials: Path | None, **given: Any) -> None:
            service = operator_service(credentials)
            if len(options) < len(own):
                work(service, **given, as_json=as_json)
                return
            answer = work(service, **given)
            answer, remark = answer if isinstance(answer, tuple) else (answer, "")
            show(answer or {}, as_json=as_json)
            if remark:
                note(remark)

        # typer reads the options from the signature, and the help from the docstring.
        run.__signature__ = inspect.Signature([*options, *_LAST])  # type: ignore[attr-defined]
        run.__doc__ = work.__doc__
        app.command(name, epilog=examples(*lines))(run)
        return work

    return add
