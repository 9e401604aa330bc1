"""The faults of a form: each rule that a request breaks, as a sentence at the field that it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paydesk.console.api import ApiRefused
from paydesk.console.field import Field

REQUIRED = "is required"


@dataclass(frozen=True, slots=True)
class FormFaults:
    """The sentences about a form: `at` has those of fields, by their names, `others` those of none of them."""

    at: Mapping[str, str]
    others: Sequence[str]

    @property
    def first(self) -> str:
        """The name of the first field with a sentence; empty if there is none."""
        return next(iter(self.at), "")


def faults_of(fields: Sequence[Field], refused: ApiRefused | None) -> FormFaults:
    """Return what a refusal says about the fields of a form, by the names of properties that they set."""
    if refused is None:
        return FormFaults({}, ())
    by_name = {name: field for field in fields if field.kind != "hidden" for name in (field.name, *field.sets)}
    sentences: dict[str, str] = {}
    others: list[str] = []
    for broken in refused.rules:
        field = next((by_name[name] for name in broken.names if name in by_name), None)
        if field is None:
            others.append(str(broken))
        else:
            sentences.setdefault(field.name, sentence(field, broken.rule))
    at = {field.name: sentences[field.name] for field in fields if field.name in sentences}
    return FormFaults(at, others if at or others else refused.sentences)


def broken(fields: Sequence[Field], sent: Mapping[str, str]) -> list[str]:
    """Return the rules that what was sent breaks already by the form: as the details of a refusal."""
    details = []
    for field in fields:
        value = sent.get(field.name, "")
        if field.required and not value:
            details.append(f"'{field.name}' - {REQUIRED}")
        elif len(value) > field.maxlength and field.kind != "hidden":
            details.append(f"'{field.name}' - has {len(value)} characters; at most {field.maxlength} are possible")
    return details


def sentence(field: Field, rule: str) -> str:
    """Return a rule as a sentence about a field."""
    if field.kind == "checkbox" and rule == REQUIRED:
        return "Set this check mark to go on."
    rule, noun = "is needed" if rule == REQUIRED else rule, field.noun or field.label
    if not field.noun and not any(character.isupper() for character in noun[1:]):
        noun = noun[:1].lower() + noun[1:]  # As it is written inside a sentence.
    return f"The {noun} {rule}."
