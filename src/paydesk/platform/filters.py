"""The query parameters of a list: their values, and one refusal that names every fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from paydesk.core.errors import PROPERTY_VALUE, ErrorKind, Fault, Refusal
from paydesk.platform.operation import Query

FAULTS_MAX = 50


class Filters:
    """The values of a request's parameters, and their faults. A missing or invalid one has its schema's default.

    The list checks what the values must be together: it adds faults before it calls `refuse_faults`.
    """

    def __init__(self, parameters: Iterable[Query], query: Mapping[str, str], unread: Iterable[str] = ()) -> None:
        """Read the parameters, but for those in `unread`, to which the caller adds faults."""
        self._sent, self._faults, self._values = query, dict[str, Fault](), dict[str, Any]()
        for one in parameters:
            if "default" in one.schema:
                self._values[one.name] = one.schema["default"]
            if one.name in query and one.name not in unread:
                try:
                    self._values[one.name] = one.parse(query[one.name])
                except ValueError as error:
                    self.fault(one.name, str(error))

    def __contains__(self, name: str) -> bool:
        """Return whether the parameter was sent."""
        return name in self._sent

    def get(self, name: str, default: Any = None) -> Any:
        """Return the parameter's value; `default` if it has none."""
        return self._values.get(name, default)

    def fault(self, name: str, rule: str, kind: ErrorKind = PROPERTY_VALUE) -> None:
        """Add a parameter's fault; the first of each parameter is kept."""
        printable = name if name.isprintable() else ascii(name)
        self._faults.setdefault(name, Fault(kind, f"'{printable[:64]}' - {rule}"))

    def refuse_faults(self) -> None:
        """Raise a refusal with up to `FAULTS_MAX` faults, in the order in which the parameters were sent."""
        faults = tuple(self._faults[name] for name in self._sent if name in self._faults)[:FAULTS_MAX]
        if faults:
            raise Refusal(faults[0].kind, "; ".join(fault.detail for fault in faults), faults=faults)
