"""The forms of the rows of `/operator/v1` that have words: what is written about an action becomes its pages.

A form sends the row's request, as a command would; there is no other path to the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from paydesk.console.actions import KEY, ActionForm, Done, Field, act, differing, forbidden
from paydesk.console.api import BASE, ApiRefused
from paydesk.console.request import PATH, ConsoleRequest
from paydesk.console.screen import form, screen
from paydesk.core.clock import rfc3339
from paydesk.core.sentences import holding, text_of, value_at
from paydesk.operation import Answer, Operation
from paydesk.operators.noun import Noun
from paydesk.operators.properties import (
    CHECKBOX,
    LINES,
    NUMBERS,
    OF_CHECKBOXES,
    OF_LISTS,
    SELECT,
    WORDS,
    Property,
    properties,
    typed_body,
)  # fmt: skip
from paydesk.operators.words import Choices, Document, Words

_PARAMETER = re.compile(r"\{(\w+)\}")
_LINE = re.compile(r"'\$\.(\w+)\[([0-9]+)\]' - (.+)", re.DOTALL)
_KINDS = {LINES: "textarea", NUMBERS: "text", "decimal": "text"}
_TO_CHOOSE = ("", "Choose one")


def forms(rows: Iterable[Operation]) -> tuple[Operation, ...]:
    """Return the pages with the forms of these rows."""
    found = (_Form(row, words) for row in rows if row.action for words in (row.action.words, *row.action.words.forms))
    return tuple(page for one in found if one.words.form is not None for page in one.pages())


def address_of(row: Operation, words: Words) -> str:
    """Return the address of a form of a row below `/console`, with parameters."""
    noun, verb = row.action.noun, row.action.verb
    if words.form and words.form.startswith("/"):
        return words.form
    return f"{noun.pages}/{words.form or 'add'}" if verb == "create" else f"{noun.forms}/{words.form or verb}"


@dataclass(frozen=True, slots=True)
class _Form:
    """The form of a row with these words: those of its action, or of a further form."""

    row: Operation
    words: Words

    @property
    def is_new(self) -> bool:
        """Whether it creates what its noun is."""
        return bool(self.row.action.verb == "create")

    @property
    def address(self) -> str:
        """Its address below `/console`, with parameters."""
        return address_of(self.row, self.words)

    @property
    def section(self) -> str:
        """The section of the console that it is in."""
        return self.row.action.noun.section or self.address.split("/")[1]

    def pages(self) -> tuple[Operation, Operation]:
        """Return its `GET` and its `POST`."""
        return form(
            self.address,
            screen(self.answer),
            summary=self.row.summary,
            path_pattern="" if self.is_new else self.row.path_pattern,
            development=self.row.development,
        )

    async def answer(self, request: ConsoleRequest) -> Answer:
        """Show the form, or do what it asks for."""
        row, words, noun = self.row, self.words, self.row.action.noun
        if not request.permits(words.role or row.role or "change"):
            return forbidden(request, self.section)
        names = await self._names(request)
        asked = [one for one in self._asked if self._is_open(one, names)]
        back = words.back or (noun.pages if self.is_new else noun.page)
        action = ActionForm(
            title=words.title.format_map(names),
            says=holding(words.says, names),
            back=_filled(back, names),
            section=self.section,
            submit=words.submit.format_map(names),
            fields=[field for one in asked for field in await _fields(request, self, one, names)],
            danger=words.danger,
            permitted=True,
            impossible=text_of(words.impossible, names),
            repeatable=words.repeatable,
            is_change=self.is_change,
        )

        async def work(sent: Mapping[str, str]) -> Done:
            return await self._send(request, action, asked, sent, names)

        return await act(request, action, work)

    async def _names(self, request: ConsoleRequest) -> Document:
        """Return what sentences and fields can name: parameters, the properties of the object, and facts."""
        noun, words = self.row.action.noun, self.words
        names = self._given(request)
        names |= await _document(request, words.reads or ("" if self.is_new else noun), names)
        return self._with_facts(names)

    def _given(self, request: ConsoleRequest) -> Document:
        """Return the names that a form has without its object: parameters, the time, and whose request it is."""
        parameters = zip(_PARAMETER.findall(self.address), request.call.paths, strict=True)
        return {**dict(parameters), "now": rfc3339(request.now_ms), "caller_id": request.operator.operator_id}

    def _with_facts(self, names: Document) -> Document:
        for facts in (self.row.action.noun.facts, self.words.facts):
            names = {**names, **facts(names)} if facts is not None else names
        return names

    @property
    def is_change(self) -> bool:
        """Whether it changes what its fields show."""
        return self.row.method == "PATCH"

    @property
    def _asked(self) -> Sequence[Property]:
        model = self.words.asks or self.row.body
        return properties(model, self.words.fields) if model is not None else ()

    def _is_open(self, one: Property, names: Document) -> bool:
        """Return whether the form asks for a property: what depends on another field is asked, and perhaps not sent."""
        depends_on = one.shown.only[0] if one.shown.only is not None else ""
        return depends_on in {other.name for other in self._asked} or one.is_asked(names)

    async def _send(
        self,
        request: ConsoleRequest,
        action: ActionForm,
        asked: Sequence[Property],
        sent: Mapping[str, str],
        names: Document,
    ) -> Done:
        """Send the request, and return what happened. Raises `ApiRefused`."""
        row, words = self.row, self.words
        body = typed_body(asked, sent, names)
        details = [f"'{one.name}' - needs at least one" for one in asked if one.widget == WORDS and not body[one.name]]
        if self.is_change:
            body = differing(action, sent, lambda fields: typed_body(asked, fields, names))
            if not body:
                return Done("Nothing has changed.")
        body = words.sends(body, names) if words.sends is not None else body
        if words.checks is not None and not details:
            details = [detail] if (detail := await words.checks(request.api, body, names)) else []
        if details:
            message = "A field is not filled in correctly."
            raise ApiRefused(400, "property_value", message, details, request.call.request_id)
        more: dict[str, Any] = {"body": body} if row.method != "DELETE" else {}
        if row.method in ("PATCH", "DELETE"):
            more |= {name: text.format_map(names) for name, text in row.action.noun.selects.items()}
        if row.idempotent:
            more["key"] = sent[KEY]
        for name, lines in words.headers.items():
            if value := text_of(lines, names):
                more[name.replace("-", "_")] = value
        call = getattr(request.api, row.method.lower())
        try:
            answer = await call(*_target(row.path.removeprefix(BASE), names), **more)
        except ApiRefused as refused:
            raise _by_line(refused, {one.name: sent[one.name] for one in asked if one.widget == LINES}) from None
        return self._done(request, answer or {}, names)

    def _done(self, request: ConsoleRequest, answer: Document, names: Document) -> Done:
        row, words, noun = self.row, self.words, self.row.action.noun
        if row.answer is not None and row.answer is noun.document and not self.is_new:
            names = {**self._given(request), **answer}
        names = self._with_facts({**names, "answer": answer})
        path = ""
        if not words.back and self.is_new:
            path = _filled(noun.page, {**names, **answer, noun.parameter: answer[noun.key]})
        elif not words.back and row.method == "DELETE":
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


async def _document(request: ConsoleRequest, about: Noun | str, names: Document) -> Document:
    """Return the document of a noun, or that at a path; nothing without a path. Raises `ApiRefused`."""
    if isinstance(about, str) or about.find is None:
        path = about if isinstance(about, str) else about.read or about.path
        return await request.api.get(*_target(path, names)) if path else {}
    found = await about.find(request.api, names)
    if found is None:
        raise ApiRefused(404, about.unknown.code, about.unknown.message, (), request.call.request_id)
    return found


async def _fields(request: ConsoleRequest, of: _Form, one: Property, names: Document) -> Sequence[Field]:
    """Return the fields of a form for a property: one, or a checkbox for each value."""
    shown = one.shown
    now = one.shown_at_first(names, is_new=of.is_new)
    # What leaves a property out cannot empty it.
    is_required = one.is_required or (of.is_change and not (shown.optional and (not now or one.widget in OF_LISTS)))
    if one.widget in OF_CHECKBOXES:
        chosen = re.split(r",?\s", now)
        boxes = [
            Field(f"{one.name}.{value}", words, CHECKBOX, "yes" if value in chosen else "", required=False,
                  group=shown.group)
            for value, words in await _choices(request, one, names)
        ]  # fmt: skip
        # A fault of the whole list is shown at its first value.
        return [replace(boxes[0], noun=shown.noun, sets=(one.name,), hint=shown.hint), *boxes[1:]] if boxes else []
    options = await _choices(request, one, names) if one.widget == SELECT else ()
    if one.widget == SELECT and not now and len(options) != 1:
        options = [_TO_CHOOSE, *options]
    is_required |= one.widget == SELECT and all(value for value, _ in options)
    return [
        Field(
            one.name,
            shown.label.format_map(names),
            _KINDS.get(one.widget, one.widget),
            now,
            options,
            shown.hint.format_map(names),
            required=one.widget != CHECKBOX and is_required,
            maxlength=one.characters_max,
            inputmode="decimal" if one.widget == "decimal" else "",
            noun=shown.noun,
            group=shown.group,
            rows=3,
        )
    ]


async def _choices(request: ConsoleRequest, one: Property, names: Document) -> Choices:
    labels = one.shown.labels
    if callable(labels):
        return await labels(request.api, names)
    return list((labels or dict(zip(one.values, one.values, strict=True))).items())


def _target(path: str, names: Document) -> tuple[str, ...]:
    """Return a path with `{}` for each parameter, and the parameters: what the client of `/operator/v1` takes."""
    return (_PARAMETER.sub("{}", path), *(str(names[name]) for name in _PARAMETER.findall(path)))


def _filled(address: str, names: Document) -> str:
    path, *ids = _target(address, names)
    return PATH + path.format(*(quote(one, safe="") for one in ids))


def _by_line(refused: ApiRefused, sent: Mapping[str, str]) -> ApiRefused:
    """Return the refusal with the lines of a text in place of positions in the list that was sent."""

    def by_line(detail: str) -> str:
        found = _LINE.fullmatch(detail)
        lines = sent.get(found[1], "").splitlines() if found is not None else []
        numbers = [number for number, line in enumerate(lines, 1) if line.strip()]
        if found is None or int(found[2]) >= len(numbers):
            return detail
        return f"'{found[1]}' - has a fault in line {numbers[int(found[2])]}: it {found[3]}"

    details = [by_line(detail) for detail in refused.details]
    return ApiRefused(refused.status, refused.code, refused.message, details, refused.request_id)
