"""The forms of the rows of `/operator/v1` that have words: what is written about an action becomes its pages.

A form sends the row's request, as a command would; there is no other path to the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from paydesk.console.actions import KEY, ActionForm, Done, act, differing, forbidden
from paydesk.console.api import BASE, ApiRefused
from paydesk.console.field import Field
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import form, screen
from paydesk.core.clock import rfc3339
from paydesk.core.text.sentences import holding, text_of, value_at
from paydesk.operators.documents import Choices, Document
from paydesk.operators.noun_data import NounData
from paydesk.operators.properties import Property, properties, typed_body
from paydesk.operators.words import Words
from paydesk.platform.operation import Answer, Operation

_PARAMETER = re.compile(r"\{(\w+)\}")
_LINE = re.compile(r"'\$\.(\w+)\[([0-9]+)\]' - (.+)", re.DOTALL)
_KINDS = {"lines": "textarea", "numbers": "text", "decimal": "text"}


def forms(rows: Iterable[Operation]) -> tuple[Operation, ...]:
    """Return the pages with the forms of these rows."""
    return tuple(
        page
        for row in rows
        if row.action is not None
        for words in (row.action.words, *row.action.words.forms)
        if words.form is not None
        for page in _Form(row, words).pages()
    )


def address_of(row: Operation, words: Words) -> str:
    """Return the address of a form of a row below `/console`, with parameters."""
    noun, verb = row.action.noun, row.action.verb
    if words.form and words.form.startswith("/"):
        return words.form
    return f"{noun.pages}/{words.form or 'add'}" if verb == "create" else f"{noun.forms}/{words.form or verb}"


class _Form:
    """The form of a row with these words: those of its action, or of a further form."""

    def __init__(self, row: Operation, words: Words) -> None:
        self.row, self.words, self.noun = row, words, row.action.noun
        self.address = address_of(row, words)
        self.is_new, self.is_change = row.action.verb == "create", row.method == "PATCH"

    def pages(self) -> tuple[Operation, Operation]:
        """Return its `GET` and its `POST`."""
        pattern = "" if self.is_new else self.row.path_pattern
        answer, summary = screen(self.answer), self.row.summary
        return form(self.address, answer, summary=summary, path_pattern=pattern, development=self.row.development)

    async def answer(self, request: ConsoleRequest) -> Answer:
        """Show the form, or do what it asks for."""
        words, section = self.words, self.noun.section or self.address.split("/")[1]
        if not request.permits(words.role or self.row.role or "change"):
            return forbidden(request, section)
        names = self._given(request)
        names |= await _document(request, words.reads or ("" if self.is_new else self.noun), names)
        names = self._with_facts(names)
        asked = self._asked(names)
        action = ActionForm(
            title=words.title.format_map(names),
            says=holding(words.says, names),
            back=_filled(words.back or (self.noun.pages if self.is_new else self.noun.page), names),
            section=section,
            submit=words.submit.format_map(names),
            fields=[field for one in asked for field in await _fields(request, self, one, names)],
            danger=words.danger,
            permitted=True,
            impossible=text_of(words.impossible, names),
            repeatable=words.repeatable,
            is_change=self.is_change,
        )

        async def work(sent: Mapping[str, str]) -> Done:
            body = typed_body(asked, sent, names)
            details = [
                f"'{one.name}' - needs at least one" for one in asked if one.widget == "words" and not body[one.name]
            ]
            if self.is_change:
                body = differing(action, sent, lambda fields: typed_body(asked, fields, names))
                if not body:
                    return Done("Nothing has changed.")
            try:
                return await self._send(request, body, sent, names, details)
            except ApiRefused as refused:
                texts = {one.name: sent[one.name] for one in asked if one.widget == "lines"}
                refused.details = tuple(_by_line(detail, texts) for detail in refused.details)
                raise

        return await act(request, action, work)

    def _asked(self, names: Document) -> list[Property]:
        """Return what the form asks for: also what depends on another field, which is perhaps not sent."""
        model = self.words.asks or self.row.body
        asked = properties(model, self.words.fields) if model is not None else ()
        fields = {one.name for one in asked}
        return [one for one in asked if (one.shown.only or ("",))[0] in fields or one.is_asked(names)]

    def _given(self, request: ConsoleRequest) -> Document:
        """Return the names that a form has without its object: parameters, the time, and whose request it is."""
        parameters = zip(_PARAMETER.findall(self.address), request.call.paths, strict=True)
        return {**dict(parameters), "now": rfc3339(request.now_ms), "caller_id": request.operator.operator_id}

    def _with_facts(self, names: Document) -> Document:
        for facts in filter(None, (self.noun.facts, self.words.facts)):
            names = {**names, **facts(names)}
        return names

    async def _send(
        self, request: ConsoleRequest, body: Document, sent: Mapping[str, str], names: Document, details: list[str]
    ) -> Done:
        """Send the request unless there are details of a refusal; return what happened. Raises `ApiRefused`."""
        row, words = self.row, self.words
        body = words.sends(body, names) if words.sends is not None else body
        if words.checks is not None and not details:
            details = list(filter(None, [await words.checks(request.api, body, names)]))
        if details:
            message = "A field is not filled in correctly."
            raise ApiRefused(400, "property_value", message, details, request.call.request_id)
        more: dict[str, Any] = {"body": body} if row.method != "DELETE" else {}
        if row.method in ("PATCH", "DELETE"):
            more |= {name: text.format_map(names) for name, text in self.noun.selects.items()}
        if row.idempotent:
            more["key"] = sent[KEY]
        headers = {name.replace("-", "_"): text_of(lines, names) for name, lines in words.headers.items()}
        more |= {name: value for name, value in headers.items() if value}
        call = getattr(request.api, row.method.lower())
        return self._done(request, await call(*_target(row.path.removeprefix(BASE), names), **more) or {}, names)

    def _done(self, request: ConsoleRequest, answer: Document, names: Document) -> Done:
        row, words, noun = self.row, self.words, self.noun
        if row.answer is not None and row.answer is noun.document and not self.is_new:
            names = {**self._given(request), **answer}
        names = self._with_facts({**names, "answer": answer})
        path = ""
        if self.is_new and not words.back:
            path = _filled(noun.page, {**names, **answer, noun.parameter: answer[noun.key]})
        elif row.method == "DELETE" and not words.back:
            path = _filled(noun.pages, names)
        text, once = text_of(words.done, names), words.once
        if once is None or not answer.get(once.name):
            return Done(text, path)
        return Done(
            text,
            path,
            str(answer[once.name]),
            once.label.format_map(names),
            text_of(once.warning, names),
            [(label, str(value_at(names, place))) for label, place in once.beside.items()],
        )


async def _document(request: ConsoleRequest, about: NounData | str, names: Document) -> Document:
    """Return the document of a noun, or that at a path; nothing without a path. Raises `ApiRefused`."""
    if isinstance(about, str) or about.find is None:
        path = about if isinstance(about, str) else about.read or about.path
        return await request.api.get(*_target(path, names)) if path else {}
    document = await about.find(request.api, names)
    if document is None:
        raise ApiRefused(404, about.unknown.code, about.unknown.message, (), request.call.request_id)
    return document


async def _fields(request: ConsoleRequest, of: _Form, one: Property, names: Document) -> Sequence[Field]:
    """Return the fields of a form for a property: one, or a checkbox for each value."""
    shown = one.shown
    now = one.shown_at_first(names, is_new=of.is_new)
    # What leaves a property out cannot empty it.
    is_required = one.is_required or (
        of.is_change and not (shown.optional and (not now or one.widget in ("lines", "numbers")))
    )
    options: Choices = ()
    if one.widget in ("choices", "words", "select"):
        labels = shown.labels or dict(zip(one.values, one.values, strict=True))
        options = await labels(request.api, names) if callable(labels) else list(labels.items())
    if one.widget in ("choices", "words"):
        chosen = re.split(r",?\s", now)
        boxes = [
            Field(f"{one.name}.{value}", words, "checkbox", "yes" if value in chosen else "", required=False,
                  group=shown.group)
            for value, words in options
        ]  # fmt: skip
        # A fault of the whole list is shown at its first value.
        return [replace(boxes[0], noun=shown.noun, sets=(one.name,), hint=shown.hint), *boxes[1:]] if boxes else []
    if one.widget == "select" and not now and len(options) != 1:
        options = [("", "Choose one"), *options]
    is_required |= one.widget == "select" and all(value for value, _ in options)
    return [
        Field(
            one.name,
            shown.label.format_map(names),
            _KINDS.get(one.widget, one.widget),
            now,
            options,
            shown.hint.format_map(names),
            required=one.widget != "checkbox" and is_required,
            maxlength=one.characters_max,
            inputmode="decimal" if one.widget == "decimal" else "",
            noun=shown.noun,
            group=shown.group,
            rows=3,
        )
    ]


def _target(path: str, names: Document) -> tuple[str, ...]:
    """Return a path with `{}` for each parameter, and the parameters: what the client of `/operator/v1` takes."""
    return (_PARAMETER.sub("{}", path), *(str(names[name]) for name in _PARAMETER.findall(path)))


def _filled(address: str, names: Document) -> str:
    path, *ids = _target(address, names)
    return PATH + path.format(*(quote(one, safe="") for one in ids))


def _by_line(detail: str, texts: Mapping[str, str]) -> str:
    """Return a detail of a refusal with the line of a text in place of the position in the list that was sent."""
    rule = _LINE.fullmatch(detail)
    lines = texts.get(rule[1], "").splitlines() if rule is not None else []
    numbers = [number for number, line in enumerate(lines, 1) if line.strip()]
    if rule is None or int(rule[2]) >= len(numbers):
        return detail
    return f"'{rule[1]}' - has a fault in line {numbers[int(rule[2])]}: it {rule[3]}"
