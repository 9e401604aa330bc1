"""The operations of `paydesk dev`: those of Paydesk, and the kit's."""

from __future__ import annotations

from paydesk.console.screen import PACKAGE
from paydesk.platform.web import html
from paydesk.service.api import Api
from paydesk_dev.console.page import OPERATIONS as CONSOLE
from paydesk_dev.console_key import OPERATIONS as CONSOLE_KEY
from paydesk_dev.faults.acquirer import AT_ACQUIRER
from paydesk_dev.faults.firings import FIRED
from paydesk_dev.faults.subscriptions import FAULT, FORMS
from paydesk_dev.operations import OPERATIONS as DEVELOPMENT
from paydesk_dev.operator_rows import OPERATIONS as OPERATORS
from paydesk_dev.resending.from_docs import OPERATIONS as FROM_DOCS
from paydesk_dev.resending.page import OPERATIONS as SENDING
from paydesk_dev.virtual.operations import OPERATIONS as VIRTUAL_TERMINALS

html.BESIDE[PACKAGE] = (*html.BESIDE[PACKAGE], "paydesk_dev")

API = Api(
    (*OPERATORS, *DEVELOPMENT, *VIRTUAL_TERMINALS),
    (*CONSOLE_KEY, *CONSOLE, *FORMS, *SENDING, *FROM_DOCS),
    lambda row: FIRED.extend(AT_ACQUIRER.extend(FAULT.extend(row))),
)
