"""The base of all models of request bodies."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A closed and strict model: unknown fields are refused, no value is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)
