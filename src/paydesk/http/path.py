"""The parameters of a path: the last one is checked against the operation's pattern and made canonical."""

from __future__ import annotations

import re
from collections.abc import Mapping

from paydesk.core.errors import INVALID_PATH_PARAM
from paydesk.operation import Operation

PARAMETER_CHARACTERS_MAX = 200


class PathRules:
    """What an operation's path parameters must look like."""

    def __init__(self, operation: Operation) -> None:
        self._last_name = operation.path.rpartition("{")[2].partition("}")[0]
        self._pattern = re.compile(operation.path_pattern) if operation.path_pattern else None

    def checked(self, values: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
        """The last parameter of those in the path, and all of them. Raises `invalid_path_param`.

        Where there is a pattern the value is upper-cased: webhooks carry order ids in lower case.
        """
        if not values:
            return "", ()
        *others, last = values.values()
        for value in (*others, last):
            if len(value) > PARAMETER_CHARACTERS_MAX:
                raise INVALID_PATH_PARAM.with_reason("a path parameter is too long")
        if self._pattern is not None:
            # Some letters beyond ASCII have upper cases within it.
            sent, last = last, last.upper()
            if not (sent.isascii() and self._pattern.fullmatch(last)):
                raise INVALID_PATH_PARAM.with_reason("the id is malformed", f"'{self._last_name}' - is malformed")
        return last, (*others, last)
