"""The parameters of operations in the OpenAPI document."""

from __future__ import annotations

import re

from paydesk.platform.http.openapi.components import IDEMPOTENCY_KEY, PATH_EXAMPLES, Json
from paydesk.platform.http.openapi.named_schemas import portable
from paydesk.platform.http.surfaces import POLICIES
from paydesk.platform.operation import Operation, Query

PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


def parameters(row: Operation) -> list[Json]:
    """Return the parameters of the operation: of its path, its query and its headers."""
    names = PARAMETER.findall(row.path)
    described: list[Json] = []
    for name in names:
        schema: Json = {"type": "string", "minLength": 1}
        if row.path_pattern and name == names[-1]:
            pattern = row.path_pattern.removeprefix("^").removesuffix("$")
            schema = {"type": "string", "pattern": f"^{pattern}$"}
        described.append(path_parameter(name, schema))
    described += [parameter(query, "query") for query in row.query]
    if POLICIES[row.surface].has_strict_query:
        for one in described:
            if one["schema"].get("type") == "string" and not one["schema"].keys() & {"pattern", "enum"}:
                one["schema"].setdefault("minLength", 1)
    if row.idempotent:
        described.append({"$ref": f"#/components/parameters/{IDEMPOTENCY_KEY.name}"})
    described += [parameter(header, "header") for header in row.headers]
    return described


def path_parameter(name: str, schema: Json) -> Json:
    """Return a parameter of a path."""
    # Some resources have ids of another form under the same name.
    examples = (PATH_EXAMPLES.get(name, ""), *PATH_EXAMPLES.values())
    fitting = [one for one in examples if one and re.fullmatch(schema.get("pattern", ".*"), one)]
    example = {"example": fitting[0]} if fitting else {}
    said = f"The id of the {name[:-3].replace('_', ' ')}." if name.endswith("_id") else f"The {name.replace('_', ' ')}."
    return {"name": name, "in": "path", "description": said, "required": True, "schema": schema, **example}


def parameter(given: Query, where: str) -> Json:
    """Return a parameter of a query, or a header."""
    described: Json = {
        "name": given.name,
        "in": where,
        "description": given.description,
        "schema": portable(dict(given.schema)),
    }
    if given.required:
        described["required"] = True
    return described
