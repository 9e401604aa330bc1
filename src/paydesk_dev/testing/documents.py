"""Answers of the service: dictionaries whose fields are attributes too."""

from __future__ import annotations

from typing import Any


class Document(dict[str, Any]):
    """An object of an answer. A field that this one does not have is an `AttributeError` that names those it has."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"this {type(self).__name__} has no {name}; it has {', '.join(self)}")


class Order(Document):
    """An order as its application gets it."""

    id: str
    status: str
    version: int

    @property
    def detail(self) -> str:
        """The status detail of the payment, or of the order before there is a payment."""
        payments = self["transactions"]["payments"]
        return str((payments[-1] if payments else self).get("status_detail", self["status_detail"]))

    @property
    def reference(self) -> str:
        """The external reference, empty without one."""
        return str(self.get("external_reference", ""))


class Screen(Document):
    """The screen of a terminal: `lines`, `actions`, `status_detail`, `receipt` and more, if the screen has them."""

    @property
    def name(self) -> str:
        """The name of the screen, such as `present_card`."""
        return str(self["screen"])


class Charge(Document):
    """A payment in the acquirer's ledger; `charged_amount` is what is left of it after refunds."""


class Request(Document):
    """A request that the till sent: `operation`, `status`, `idempotency_key`, `error` and more."""


class Notification(Document):
    """An attempt to deliver a notification: `action`, `order_id`, `version`, `body`, `headers`, `answer` (a status)."""


class Firing(Document):
    """A firing of a fault."""


def id_of(order: Order | str) -> str:
    """Return the id of an order."""
    return order if isinstance(order, str) else order.id
