"""The request of a page as code in four languages, with the identifiers of this service or variables for them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from paydesk.platform.docs.pages import Page
from paydesk.platform.http.surfaces import JSON

TOKENS = {"device": "PAYDESK_DEVICE_TOKEN", "operator": "PAYDESK_OPERATOR_TOKEN", "metrics": "PAYDESK_METRICS_TOKEN"}
"""The variables of the surfaces whose token is not `PAYDESK_ACCESS_TOKEN`."""
SECRETS = ("client_secret", "code", "code_verifier", "refresh_token", "token")
"""Members of the token endpoints that are never written out."""
IDENTIFIERS = ("terminal_id", "client_id", "redirect_uri", "user_id")
NEW_KEY = "${NEW_KEY}"
"""Becomes a new key in each language."""
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Request:
    """A request with variables such as `${PAYDESK_ACCESS_TOKEN}`."""

    method: str
    target: str
    """The path and the query."""
    headers: tuple[tuple[str, str], ...]
    body: Any = None


def variable(name: str) -> str:
    """Return the variable of an identifier or secret, by the names that `paydesk env` uses."""
    return f"${{PAYDESK_{name.upper()}}}"


def request_of(page: Page, known: Mapping[str, str]) -> Request:
    """Return the request of an operation's page. `known` has the values of identifiers; others are variables."""
    row, target, query = page.row, page.path, list[str]()
    assert row is not None, "a webhook is not sent by its reader"
    headers = list[tuple[str, str]]()
    if row.surface in ("application", "virtual", *TOKENS):
        headers.append(("Authorization", f"Bearer ${{{TOKENS.get(row.surface, 'PAYDESK_ACCESS_TOKEN')}}}"))
    for where, one in page.required_parameters:
        if where == "path":
            target = target.replace(f"{{{one.path}}}", known.get(one.path, variable(one.path)))
        elif where == "query":
            query.append(f"{one.path}={quote(one.example) or variable(one.path)}")
        elif one.path == "X-Idempotency-Key":
            headers.append((one.path, NEW_KEY))
        else:
            headers.append((one.path, one.example))
    if page.example is not None:
        headers.append(("Content-Type", JSON))
    body = _filled(page.example, known, SECRETS if row.surface == "token" else ())
    return Request(row.method, target + ("?" + "&".join(query) if query else ""), tuple(headers), body)


def _filled(value: Any, known: Mapping[str, str], secrets: tuple[str, ...]) -> Any:
    """Return the example with the identifiers of this service in place of those that are an example's."""
    if isinstance(value, list):
        return [_filled(one, known, secrets) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: known.get(name, variable(name))
        if isinstance(one, str) and name in (*IDENTIFIERS, *secrets)
        else _filled(one, known, secrets)
        for name, one in value.items()
    }


def samples(request: Request, base_url: str) -> tuple[tuple[str, str], ...]:
    """Return the request in each language, under its name."""
    url = base_url + request.target
    return tuple((name, write(request, url)) for name, write in _LANGUAGES.items())


def _curl(request: Request, url: str) -> str:
    method = "" if request.method == "GET" else f"-X {request.method} "
    lines = [f'curl {method}"{url}"']
    lines += [f'-H "{name}: {value}"'.replace(NEW_KEY, "key-$(date +%s)-$$") for name, value in request.headers]
    if request.body is not None:
        text = json.dumps(request.body, indent=2, ensure_ascii=False).replace("'", r"'\''")
        lines.append("-d '" + _VARIABLE.sub(r"""'"$\1"'""", text) + "'")
    return " \\\n  ".join(lines)


def _python(request: Request, url: str) -> str:
    language = _Language('f"{}"', "os.environ['{}']", "{{{}}}", "{}", "{", ": ", "}", ("True", "False", "None"))
    headers = "".join(f'        "{name}": {language.text(value)},\n' for name, value in request.headers)
    body = "" if request.body is None else f"    json={language.literal(request.body, '    ')},\n"
    code = f'answer = requests.request(\n    "{request.method}",\n    {language.text(url)},\n'
    code += f"    headers={{\n{headers}    }},\n{body}    timeout=30,\n)\nprint(answer.status_code, answer.text)"
    code = code.replace(f'"{NEW_KEY}",', "str(uuid.uuid4()),  # a retry sends the same key")
    modules = "".join(f"import {name}\n" for name in ("os", "uuid") if f"{name}." in code)
    return f"{modules}\nimport requests\n\n{code}".lstrip()


def _node(request: Request, url: str) -> str:
    language = _Language("`{}`", "process.env.{}", "${{{}}}", "`$", "{", ": ", "}", ("true", "false", "null"))
    headers = "".join(f'    "{name}": {language.text(value)},\n' for name, value in request.headers)
    body = "" if request.body is None else f"  body: JSON.stringify({language.literal(request.body, '  ')}),\n"
    code = f'const answer = await fetch({language.text(url)}, {{\n  method: "{request.method}",\n'
    code += f"  headers: {{\n{headers}  }},\n{body}}});\nconsole.log(answer.status, await answer.text());"
    return code.replace(f'"{NEW_KEY}",', "crypto.randomUUID(), // a retry sends the same key")


def _php(request: Request, url: str) -> str:
    language = _Language('"{}"', "getenv('{}')", '" . {} . "', "$", "[", " => ", "]", ("true", "false", "null"))
    headers = "".join(f"    {language.text(f'{name}: {value}')},\n" for name, value in request.headers)
    option = "curl_setopt($request, CURLOPT_"
    code = f"<?php\n$request = curl_init({language.text(url)});\n{option}CUSTOMREQUEST, '{request.method}');\n"
    code += f"{option}RETURNTRANSFER, true);\n{option}HTTPHEADER, [\n{headers}]);\n"
    if request.body is not None:
        code += f"{option}POSTFIELDS, json_encode({language.literal(request.body)}));\n"
    code += "$answer = curl_exec($request);\necho curl_getinfo($request, CURLINFO_RESPONSE_CODE), ' ', $answer;"
    return code.replace(f'{NEW_KEY}",', '" . bin2hex(random_bytes(16)), // a retry sends the same key').replace(
        ' . ""', ""
    )


_LANGUAGES: Mapping[str, Callable[[Request, str], str]] = {
    "curl": _curl,
    "Python": _python,
    "Node": _node,
    "PHP": _php,
}


@dataclass(frozen=True, slots=True)
class _Language:
    """How a language writes JSON, and texts with variables of the environment."""

    with_variables: str
    """A text in which variables are replaced."""
    variable: str
    within: str
    """A variable within such a text."""
    special: str
    """The characters with a meaning within such a text: braces are doubled, others get a backslash."""
    opens: str
    arrow: str
    closes: str
    constants: tuple[str, str, str]

    def text(self, text: str) -> str:
        literal, *rest = _VARIABLE.split(text)
        if not rest or NEW_KEY in text:
            plain = json.dumps(text, ensure_ascii=False)
            # In PHP a dollar begins a variable in any such text.
            return plain.replace("$", r"\$") if self.special == "$" and not rest else plain
        if alone := _VARIABLE.fullmatch(text):
            return self.variable.format(alone[1])
        parts = (
            self.within.format(self.variable.format(one)) if turn % 2 else self._quoted(one)
            for turn, one in enumerate((literal, *rest))
        )
        return self.with_variables.replace("{}", "".join(parts))

    def _quoted(self, text: str) -> str:
        escaped = json.dumps(text, ensure_ascii=False)[1:-1]
        for one in self.special:
            escaped = escaped.replace(one, one * 2 if one in "{}" else f"\\{one}")
        return escaped

    def literal(self, value: Any, indent: str = "") -> str:
        """Return JSON as a literal. `indent`: that of the line on which it begins."""
        inner = f"{indent}    "
        if value is None or isinstance(value, bool):
            return self.constants[2 if value is None else not value]
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return f"[{', '.join(self.literal(one, indent) for one in value)}]"
        if not isinstance(value, dict):
            return str(value)
        lines = (f"\n{inner}{self.text(key)}{self.arrow}{self.literal(one, inner)}," for key, one in value.items())
        return f"{self.opens}{''.join(lines)}\n{indent}{self.closes}" if value else self.opens + self.closes
