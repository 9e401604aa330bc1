"""The parameters of a path: the last one is checked against the operation's pattern and made canonical."""

from __future__ import annotations

import re
from collections.abc import Mapping

from paydesk.errors import INVALID_PATH_PARAM
from paydesk.operation import Operation

PARAMETER_CHARACTERS_MAX = 200


class PathRules:
    """What an operation's path parameters must look like."""

    def __init__(self, operation: Operation) -> None:
        self._names = re.findall(r"\{(\w+)\}", operation.path)
        self._pattern = re.compile(operation.path_pattern) if operation.path_pattern else None

    def checked(self, parameters: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
        """The last parameter, and all of them. Raises `invalid_path_param`.

        Where there is a pattern the value is upper-cased: webhooks carry order ids in lower case.
        """
        values = [parameters[name] for name in self._names]
        if not values:
            return "", ()
        if any(len(value) > PARAMETER_CHARACTERS_MAX for value in values):
            raise INVALID_PATH_PARAM.because("a path parameter is too long")
        if self._pattern is not None:
            values[-1] = values[-1].upper()
            if not self._pattern.fullmatch(values[-1]):
                raise INVALID_PATH_PARAM.because("the id is malformed", f"'{self._names[-1]}' - is malformed")
        return values[-1], tuple(values)
