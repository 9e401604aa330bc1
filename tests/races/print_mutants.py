"""The defects that belong to print actions."""

from __future__ import annotations

from mutant import Mutant

RACES = "tests/races/test_print_races.py"
ACTIONS = "tests/contract/test_print_actions.py"

ONE_SLOT = "An order and a print action exclude each other on a terminal"

PRINT_MUTANTS = (
    Mutant(
        ONE_SLOT,
        "creating an order does not look at the print action",
        "paydesk/engine/orders/handlers.py",
        "    if terminal.action_id is not None:\n",
        "    if False:\n",
        RACES,
        "exclude_each_other and sqlite",
    ),
    Mutant(
        ONE_SLOT,
        "the terminal's print action is read from the statement's own snapshot",
        "paydesk/engine/terminals/store.py",
        'FOR_ORDER = "SELECT live, operating_mode, action_id FROM terminals',
        'FOR_ORDER = "SELECT live, operating_mode, (SELECT a.action_id FROM print_actions a WHERE a.seller_id = $1'
        " AND a.terminal_id = $2 AND a.content IS NOT NULL) FROM terminals",
        RACES,
        "order_and_a_print_action_exclude and postgres",
    ),
    Mutant(
        ONE_SLOT,
        "creating a print action does not lock its terminal",
        "paydesk/engine/printing/handlers.py",
        "    terminal = await terminals.for_order(call.tx, caller.seller_id, point.terminal_id)\n",
        "    terminal = await terminals.find(call.tx, caller.seller_id, point.terminal_id)\n",
        RACES,
        "order_and_a_print_action_exclude and postgres",
    ),
    Mutant(
        "A print action is printed or canceled",
        "a fetched action can be canceled",
        "paydesk/engine/terminals/print_actions/action.py",
        'CANCEL = Move("cancel", "POST …/cancel", (CREATED,), CANCELED)',
        'CANCEL = Move("cancel", "POST …/cancel", (CREATED, ON_TERMINAL), CANCELED)',
        RACES,
        "cancel_and_fetch and sqlite",
    ),
    Mutant(
        "The content of a print action is deleted with its end",
        "an action ends with its content",
        "paydesk/engine/terminals/print_actions/store.py",
        "SET {move.target}, content = NULL, updated_ms = $3",
        "SET {move.target}, updated_ms = $3",
        ACTIONS,
        "cancel_ends and sqlite",
    ),
)
