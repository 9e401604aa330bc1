"""The defects that belong to operators who sign in: their links, sessions and passwords."""

from __future__ import annotations

from mutant import Mutant

RACES = "tests/races/test_operator_sign_in_races.py"
PEOPLE = "tests/contract/test_operators_people.py"
SIGN_IN = "tests/contract/test_console_sign_in.py"
ONE_LINK = "A link sets one password"
ENDS = "No session of an operator outlives its password"

SIGN_IN_MUTANTS = (
    Mutant(
        ONE_LINK,
        "a link that was used sets another password",
        "paydesk/operators/accounts/links.py",
        "SET used_ms = $2 WHERE digest = $1 AND used_ms IS NULL AND expires_ms > $2",
        "SET used_ms = $2 WHERE digest = $1 AND expires_ms > $2",
        RACES,
        "same_instant and postgres",
    ),
    Mutant(
        ENDS,
        "a sign-in begins a session with a password that was replaced meanwhile",
        "paydesk/engine/sellers/accounts.py",
        "($2 = '' OR password = $2) AND {self.barred} IS NULL FOR SHARE",
        "($2 = '' OR $2 <> '') AND {self.barred} IS NULL FOR SHARE",
        RACES,
        "old_password and sqlite",
    ),
    Mutant(
        ENDS,
        "a sign-in with an outdated hash brings the old password back",
        "paydesk/engine/sellers/accounts.py",
        "{self.change_password} AND password = $3",
        "{self.change_password} AND ($3 = '' OR $3 <> '')",
        RACES,
        "new_hash and sqlite",
    ),
    Mutant(
        "A password can't be guessed",
        "guesses at the same time pass a limit together",
        "paydesk/engine/sellers/throttle.py",
        "            bucket.take(key)\n",
        "            bucket.wait(key)\n",
        "tests/contract/test_accounts_sign_in.py",
        "pass_a_limit and sqlite",
    ),
    Mutant(
        ENDS,
        "PostgreSQL: a sign-in does not wait for the revocation of its operator",
        "paydesk/engine/sellers/accounts.py",
        "($2 = '' OR password = $2) AND {self.barred} IS NULL FOR SHARE",
        "($2 = '' OR password = $2) AND {self.barred} IS NULL",
        RACES,
        "revoked_operator and postgres",
    ),
    Mutant(
        ENDS,
        "a new password leaves the sessions of the old one",
        "paydesk/engine/sellers/accounts.py",
        "        return await self.end_all(tx, account_id, now_ms)\n",
        "        return 0\n",
        PEOPLE,
        "newer_link and sqlite",
    ),
    Mutant(
        ENDS,
        "the session before a sign-in stays valid",
        "paydesk/engine/sellers/accounts.py",
        "        await self.end(tx, previous, now_ms)\n",
        "",
        SIGN_IN,
        "begins_a_new_session and sqlite",
    ),
)
