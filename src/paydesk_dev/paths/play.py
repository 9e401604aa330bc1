"""Plays a path with a till, as its buyer, its operator and its network."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from paydesk_dev.paths import judgement
from paydesk_dev.paths.judgement import LIVE, OPEN, PAID, PERSON, UNSAID, WRITES, Sale
from paydesk_dev.paths.path import Path, Step, is_end
from paydesk_dev.paths.tills import Till
from paydesk_dev.testing.clock import Clock
from paydesk_dev.testing.documents import Charge, Order
from paydesk_dev.testing.errors import NotReached, PaydeskError
from paydesk_dev.testing.faults import Fault
from paydesk_dev.testing.paydesk import PAST_FAULTS, Paydesk
from paydesk_dev.testing.service import Service

AMOUNT, ANOTHER = "24.90", "another"
PAUSE_SECONDS, RECORDED_SECONDS = 0.05, 0.1
"""Between two looks, and after how long a request is surely recorded."""
QUIET_SECONDS, SETTLE_SECONDS, SETTLES_MAX = (0.2, 0.6), 3.0, 10
"""How long a till sends nothing after its first step, or a later one, until it is done; one without a word."""
UNSIGNED = "forged", "bad_signature", "old_timestamp"
T = TypeVar("T")


class Play:
    """One run of a path with a seller, an application and a terminal of its own. `say` gets each step as it begins.

    `seconds` is how long a wait takes at most, `quiet_seconds` after how long without a request a till has given up.
    """

    def __init__(
        self,
        path: Path,
        service: Service,
        *,
        seconds: float = 10,
        quiet_seconds: int = 20,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.path, self._quiet_seconds, self._say = path, quiet_seconds, say
        fields = dict(path.scene)
        is_live = fields.pop("live", False)
        scene = service.ask("POST", "/dev/scenes", {"name": path.id, **fields})
        self.paydesk = Paydesk(service, scene, seconds)
        self.step, self.ended, self._acted, self._till_steps = "", list[Order](), 0.0, 0
        self._inbox_url = scene["webhook"]["inbox_url"]
        self._time, self._faults, self.sales = Clock(self.paydesk), list[tuple[str, Fault]](), list[Sale]()
        self.terminal = self.paydesk.terminal()
        self.environment: Mapping[str, str] = self.paydesk.environment(self.terminal)
        if is_live:
            self.environment |= {f"PAYDESK_{name.upper()}": value for name, value in scene["live"].items()}

    def run(self, till: Till) -> list[str]:
        """Play it and return what was not as it has to be; remove terminal and faults."""
        self._player, found = till, list[str]()
        try:
            try:
                self._run_steps(found)
            except PaydeskError as error:
                found.append(str(error))
            self.ended = self.orders()
            requests = judgement.judge_requests(self.paydesk.requests(), self.ended, self.path.retry_after)
            found += [*self._judge(judgement.judge), *requests, *self._judge_receiver()]
            if not self.path.person and any(self.status(sale) == PERSON for sale in self.sales):
                found.append("The till leaves the sale to a person, and can go on by itself.")
            return list(dict.fromkeys(found))
        finally:
            self.paydesk.close()

    def _run_steps(self, found: list[str]) -> None:
        for step in self.path.steps:
            self._begin(step.line)
            self._do(step)
            if any(self.status(sale) == PAID for sale in self.sales):
                found += self._judge(judgement.unpaid_goods)
        self._begin("the end")
        self._wait_for_the_end()
        found += self.paydesk.faults.unused()

    def _begin(self, step: str) -> None:
        self.step = step
        self._say(step)

    def news(self, after: str, fired: dict[int, int]) -> tuple[list[str], str]:
        """Return what has happened since an event and these numbers of firings, and the last event."""
        page = self._events(after)
        lines = [f"{one['data']['id']} {one['action']}" for one in page["data"]]
        for place, (request, fault) in enumerate(self._faults.copy()):
            new = [one for one in fault.fired if one.number > fired[place]]
            lines += [f"fault {request} {one.kind}, firing {one.number}" for one in new]
            fired[place] += len(new)
        return lines, page["next"]

    def orders(self) -> list[Order]:
        """Return the orders of the till, oldest first."""
        return [order for order in self.paydesk.orders() if order.reference != ANOTHER]

    def orders_of(self, sale: Sale) -> list[Order]:
        """Return the orders of a sale: by its reference, or by the time if the till has references of its own."""
        references = {one.reference for one in self.sales}
        end = min((one.first for one in self.sales if one.first > sale.first), default=math.inf)
        return [
            order
            for number, order in enumerate(self.orders())
            if order.reference == sale.reference or (order.reference not in references and sale.first <= number < end)
        ]

    def _events(self, after: str = "") -> Any:
        return self.paydesk.ask("GET", f"/v1/events{after and f'?after={after}'}", headers=PAST_FAULTS)

    def _judge(self, rule: Callable[[Sale, list[Order], list[Charge], str], Iterator[str]]) -> list[str]:
        found = list[str]()
        for sale in self.sales:
            # The till's word first: what it knows has happened before.
            word, orders = self.status(sale), self.orders_of(sale)
            query = {"application": self.paydesk.client_id}
            ledger = map(Charge, self.paydesk.service.ask("GET", "/dev/charges", query=query)["data"])
            found += rule(sale, orders, [one for one in ledger if one.order_id in {order.id for order in orders}], word)
        return found

    def _judge_receiver(self) -> Iterator[str]:
        """Judge how the till's receiver has answered; the inbox of the service takes everything."""
        subscription = self.paydesk.service.ask("GET", f"/operator/v1/subscriptions/{self.paydesk.subscription_id}")
        if subscription["url"] == self._inbox_url:
            return
        for firing in [one for _, fault in self._faults for one in fault.fired if one.kind in UNSIGNED]:
            answer = firing.get("answer", {}).get("status")
            if firing.kind != "forged":
                answer = next(iter(self.paydesk.webhooks.received(firing.operation, firing.order))).answer
            yield from judgement.believed(firing.kind, answer)

    def status(self, sale: Sale) -> str:
        """Return what the till says of a sale."""
        return self._player.status(sale.reference)

    def _do(self, step: Step) -> None:
        if (fault := step.fault) is None:
            actor, *words = step.words
            getattr(self, f"_{actor}")(*words, **step.fields)
            return
        names = ("edge", "every", "skip", "delay", "seed", "status")
        fields = {name: getattr(fault, name) for name in names}
        added = self.paydesk.faults.add(
            fault.request, fault.kind, times=fault.times or None, set=dict(fault.set) or None, **fields
        )
        self._faults.append((fault.request, added))

    def _scene(self, **_: object) -> None:
        """It was made before the first step."""

    def _till(self, action: str, *words: str) -> None:
        self._let_till(action, *words)
        self._acted, self._till_steps = time.monotonic(), self._till_steps + 1

    def _let_till(self, action: str, *words: str) -> None:
        if action in ("kill", "start"):
            getattr(self._player, action)()
            return
        if action == "sale":
            reference = f"{self.path.id}-{uuid.uuid4().hex[:8]}"
            self.sales.append(Sale(reference, words[0] if words else AMOUNT, len(self.orders())))
        sale = self.sales[-1]
        if action == "cancel":
            self._wait("the till has an order", self._newest)
            self._player.cancel(sale.reference)
        elif action == "refund":
            self._refund(sale, *words)
        else:
            self._player.sale(sale.reference, sale.amount)

    def _refund(self, sale: Sale, *words: str) -> None:
        """Refund an amount, all that is left, or the same `again`."""
        if words != ("again",):
            paid = Decimal(self._wait("the sale is paid", self._paid))
            sale.refunding = words[0] if words else None
            sale.refunded += Decimal(words[0]) if words else paid - sale.refunded
        self._player.refund(sale.reference, sale.refunding)

    def _terminal(self, action: str, *values: str, **fields: Any) -> None:
        if action == "choose":
            self.terminal.choose(int(values[0]))
        else:
            getattr(self.terminal, action)(*values, **fields)

    def _clock(self, by: str) -> None:
        self._time.advance(by)

    def _fired(self, request: str, count: str = "1") -> None:
        self._newest_fault(request).wait(int(count))

    def _quiet(self, request: str) -> None:
        """Wait until the till has given up: its time-outs are not known."""
        self._newest_fault(request).wait_quiet(self._quiet_seconds)

    def _release(self, request: str) -> None:
        """End a fault; what it holds goes on."""
        self._newest_fault(request).remove()

    def _newest_fault(self, request: str) -> Fault:
        return next(fault for name, fault in reversed(self._faults) if name == request)

    def _answered(self, operation: str, status: str) -> None:
        def has_answer() -> bool:
            return any(str(one.status) == status for one in self.paydesk.requests(operation=operation))

        self._wait(f"{operation} was answered {status}", has_answer)

    def _event(self, action: str) -> None:
        def has_come() -> bool:
            return any(one["action"] == action for one in self._events()["data"])

        self._wait(f"there is {action}", has_come)

    def _asked(self, operation: str) -> None:
        """Wait until the till has sent another such request."""
        before = len(self.paydesk.requests(operation=operation))
        self._wait(f"the till asks {operation}", lambda: len(self.paydesk.requests(operation=operation)) > before)

    def _order(self, status: str, detail: str = "") -> None:
        self.paydesk.wait_for(status, self._wait("the till has an order", self._newest), detail=detail)

    def _operator(self, action: str, *words: str) -> None:
        ask, terminal = self.paydesk.service.ask, f"/operator/v1/terminals/{self.terminal.id}"
        if action == "tips":
            ask("PATCH", terminal, {"tip_percentages": [int(word) for word in words]})
        elif action == "release":
            ask("POST", f"{terminal}/release", {"reason": self.path.id})
        else:
            for grant in ask("GET", f"/operator/v1/grants?seller={self.paydesk.user_id}")["data"]:
                ask("DELETE", f"/operator/v1/grants/{grant['id']}")

    def _another(self, _sale: str) -> None:
        """Let an order of another till hold the terminal."""
        self.paydesk.create(self.terminal, "10.00", reference=ANOTHER)

    def _newest(self) -> Order | None:
        return next(reversed(self.orders_of(self.sales[-1])), None)

    def _paid(self) -> str | None:
        """Return what was paid, once the till knows it."""
        order, word = self._newest(), self.status(self.sales[-1])
        is_paid = order is not None and order.status == "processed" and word in (PAID, UNSAID)
        return order["transactions"]["payments"][0]["paid_amount"] if order is not None and is_paid else None

    def _wait(self, event: str, find: Callable[[], T | None]) -> T:
        """Return what is found once it is. Raises `NotReached`."""
        end = time.monotonic() + self.paydesk.seconds
        while not (found := find()):
            if time.monotonic() > end:
                raise NotReached(f"After {self.paydesk.seconds:g} s it is not so that {event}.")
            time.sleep(PAUSE_SECONDS)
        return found

    def _wait_for_the_end(self) -> None:
        """Wait until the orders have ended as they should and the till knows it, or something is surely wrong."""
        ends, orders = self.path.ends, self.orders()
        deadline = time.monotonic() + self.paydesk.seconds
        while not self._is_over(orders) and len(orders) <= len(ends) and time.monotonic() < deadline:
            time.sleep(PAUSE_SECONDS)
            orders = self.orders()
        self._wait_until_quiet()
        orders = self.orders()
        seen = [f"{order.status} {order.detail}" for order in orders]
        if len(orders) != len(ends) or not all(map(_ends, orders, ends)):
            wanted = " and ".join(ends) or "no order"
            raise NotReached(f"The path ends with {wanted}, not with {' and '.join(seen) or 'no order'}.")

    def _wait_until_quiet(self) -> None:
        """Wait until the till creates and refunds nothing more: what it does after its last step counts too."""
        is_said, now = all(self.status(sale) != UNSAID for sale in self.sales), time.monotonic()
        seconds = QUIET_SECONDS[self._till_steps > 1] if is_said else SETTLE_SECONDS
        quiet_at = max(self._acted + seconds, now + (RECORDED_SECONDS if is_said else seconds))
        end, sent = now + SETTLES_MAX * seconds, self._count_writes()
        while (now := time.monotonic()) < min(quiet_at, end):
            time.sleep(PAUSE_SECONDS)
            if (newest := self._count_writes()) != sent:
                sent, quiet_at = newest, now + seconds

    def _count_writes(self) -> int:
        return sum(one.get("operation") in WRITES for one in self.paydesk.requests())

    def _is_over(self, orders: Sequence[Order]) -> bool:
        undecided = any(order.status in LIVE for order in orders)
        said = (undecided or self.status(sale) != OPEN for sale in self.sales)
        return len(orders) == len(self.path.ends) and all(map(_ends, orders, self.path.ends)) and all(said)


def _ends(order: Order, ending: str) -> bool:
    return is_end(ending, order.status, order.detail)
