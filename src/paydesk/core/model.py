"""What the models of bodies that come in are made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Closed and strict: unknown fields are refused, nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)
