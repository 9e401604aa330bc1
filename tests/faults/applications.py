"""An application that refreshes its tokens without end; an answer that was lost is asked for again."""

from __future__ import annotations

import asyncio

from faults.caller import Answer, Caller, GaveUp
from faults.records import FamilyRecord, Records
from faults.scene import ApplicationSeed


class Application:
    """One family of tokens, in the hands of one or, now and then, two processes."""

    def __init__(
        self,
        caller: Caller,
        records: Records,
        seed: ApplicationSeed,
        stop: asyncio.Event,
    ) -> None:
        self.caller, self.records, self.stop = caller, records, stop
        self._credentials = seed.credentials
        self.family = FamilyRecord(seed.refresh_token)
        records.families.append(self.family)

    async def run(self) -> None:
        """Refresh until `stop` is set or locked out, then see whether the newest tokens work."""
        try:
            while not self.stop.is_set() and not self.family.refused:
                await self._refresh(2 if self.caller.chance.random() < 0.2 else 1)
                await asyncio.sleep(self.caller.chance.uniform(0.0, 0.1))
        except GaveUp:
            return

    async def check(self) -> None:
        """At the end: the newest access token is taken, and the newest refresh token refreshes."""
        try:
            works = not self.family.refused and await self._is_taken()
            await self._refresh(1)
            self.family.works_at_the_end = works and not self.family.refused and await self._is_taken()
        except GaveUp:
            return

    async def _refresh(self, times: int) -> None:
        """The next generation, asked for as often at once."""
        token = self.family.newest_refresh_token
        body = {**self._credentials, "grant_type": "refresh_token", "refresh_token": token}
        answers: list[Answer] = await asyncio.gather(
            *(self.caller.known("POST", "/oauth/token", body, expected=("invalid_grant",)) for _ in range(times))
        )
        refused = [f"{answer.status} {answer.code}" for answer in answers if answer.outcome == "no"]
        self.family.refused += refused
        given = {
            (answer.body["access_token"], answer.body["refresh_token"]) for answer in answers if answer.outcome == "ok"
        }
        if given:
            self.caller.tally.acknowledged["refreshed"] += 1
            self.family.steps.append((token, given))

    async def _is_taken(self) -> bool:
        access_token = next(iter(self.family.steps[-1][1]))[0] if self.family.steps else ""
        headers = {"Authorization": f"Bearer {access_token}"}
        path = "/v1/orders/ORD01J67CQQH5904WDBVZEM4JMEP3"
        answer = await self.caller.known("GET", path, headers=headers, expected=("order_not_found", "unauthorized"))
        return answer.code == "order_not_found"
