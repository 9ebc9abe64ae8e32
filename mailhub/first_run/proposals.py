"""Three proposals that wait at the first start, as an assistant would have made them.

Nothing is sent without an approval.
"""

import structlog

from accounts.access.caller import Caller
from accounts.infra.problems import Problem
from accounts.models import ApiToken, Mailbox, User
from tools.catalog.calls import call_tool

log = structlog.get_logger(__name__)

ASSISTANT = "Mail assistant"
ANSWER = """\
Dear Mira,

the carrier has confirmed Thursday between nine and eleven, so your fitters can stay on Friday morning. I am sending
the packing list separately as soon as the crates are closed.

Best wishes
Ada
"""
TO_THE_INSURER = """\
Dear Sir or Madam,

please find below the report about our van LV-207, with the policy number on its first page.

Ada Lovelace
"""
QUOTE = """\
Dear Mira,

twelve spare warning levers come to 186.00, delivered with the gear sets. The quote is good until the end of the month.

Best wishes
Ada
"""


def propose(user: User, mailbox: Mailbox) -> None:
    """Propose an answer to a customer, a forward outside the company with its attachment, and a new
    mail with one recipient that only looks like the customer.

    The proposals have a token of their own, so a script with another token sees only its own. A
    proposal that fails is left out, because the first run works without it.
    """
    token, _ = ApiToken.issue(
        user=user,
        name=ASSISTANT,
        scopes=["mail:read", "mail:draft", "mail:propose"],
        mailboxes=[mailbox],
    )
    caller = Caller(user=user, surface="command", token=token, scopes=frozenset(token.scopes))
    question = _newest(caller, subject="Delivery on Thursday", sender="mira@northwind.example")
    report = _newest(caller, subject="Accident report", sender="desk@roadassist.example")
    if question:
        _propose(caller, "reply_email", message_id=question, comment=ANSWER)
    if report:
        _propose(
            caller,
            "forward_email",
            message_id=report,
            to=["claims@insura.example"],
            comment=TO_THE_INSURER,
        )
    _propose(
        caller,
        "send_email",
        to=["mira@northvvind.example"],
        cc=["charles@lovelace.example"],
        subject="Quote: twelve warning levers",
        body=QUOTE,
    )


def _newest(caller: Caller, *, subject: str, sender: str) -> str:
    try:
        found = call_tool(
            caller, "search_emails", {"subject": subject, "from": sender, "max_results": 1}
        ).result
    except Problem as problem:
        log.warning("first_run_incomplete", code=problem.code)
        return ""
    return str(found["emails"][0]["id"]) if found["emails"] else ""


def _propose(caller: Caller, tool: str, **arguments: object) -> None:
    try:
        call_tool(caller, tool, {**arguments, "confirm": True})
    except Problem as problem:
        log.warning("first_run_incomplete", tool=tool, code=problem.code)
