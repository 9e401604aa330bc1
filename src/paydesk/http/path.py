"""Path parameters: the last one is matched against the operation's pattern and upper-cased."""

from __future__ import annotations

import re
from collections.abc import Mapping

from paydesk.core.errors import INVALID_PATH_PARAM
from paydesk.operation import Operation

PARAMETER_CHARACTERS_MAX = 200


class PathRules:
    """The rules for an operation's path parameters."""

    def __init__(self, operation: Operation) -> None:
        self._last_name = operation.path.rpartition("{")[2].partition("}")[0]
        self._pattern = re.compile(operation.path_pattern) if operation.path_pattern else None

    def checked(self, values: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
        """Return the last path parameter, and all of them. Raises `invalid_path_param`.

        A value with a pattern is upper-cased: webhooks have order ids in lower case.
        """
        if not values:
            return "", ()
        *others, last = values.values()
        for value in (*others, last):
            if len(value) > PARAMETER_CHARACTERS_MAX:
                raise INVALID_PATH_PARAM.with_reason("a path parameter is too long")
        if self._pattern is not None:
            # The upper case of some non-ASCII letters is ASCII.
            sent, last = last, last.upper()
            if not (sent.isascii() and self._pattern.fullmatch(last)):
                raise INVALID_PATH_PARAM.with_reason("the id is malformed", f"'{self._last_name}' - is malformed")
        return last, (*others, last)
