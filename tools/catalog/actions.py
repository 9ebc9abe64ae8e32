"""Tools about the proposer's own pending actions. They only read or withdraw."""

from accounts.access import roles
from accounts.access.caller import Caller
from accounts.infra.problems import not_found
from accounts.models import Role
from approvals.core.answers import ActionList
from approvals.gate import decide, find, notes
from approvals.reports import report
from approvals.reports.report import ActionReport
from tools.schemas import ActionParameters, ListActions
from tools.sending.answers import without_mail


def get_action(caller: Caller, parameters: ActionParameters) -> ActionReport:
    action = find.find(find.of_caller(caller), parameters.action_id)
    if action is None:
        raise not_found("The action does not exist, or you may not see it.")
    return without_mail(caller, report.report(action, caller))


def cancel_action(caller: Caller, parameters: ActionParameters) -> ActionReport:
    action = find.find(find.of_caller(caller), parameters.action_id)
    if action is None:
        raise not_found("The action does not exist, or you may not see it.")
    cancelled = decide.cancel(action_id=action.pk, caller=caller)
    return without_mail(caller, report.report(cancelled, caller))


def list_actions(caller: Caller, parameters: ListActions) -> ActionList:
    """Return actions, newest first, in pages that do not move while new actions arrive."""
    actions = find.of_caller(caller)
    if parameters.mailbox is not None:
        actions = actions.filter(
            mailbox=roles.get_mailbox(caller, parameters.mailbox, need=Role.VIEWER)
        )
    if parameters.state is not None:
        actions = actions.filter(status=parameters.state)
    if parameters.answered is not None:
        actions = find.with_answer(actions, parameters.answered)
    actions = notes.with_metadata(actions, parameters.metadata or {})
    page, next_cursor = find.page(
        find.with_preview(actions),
        cursor=parameters.cursor,
        limit=parameters.limit,
        newest_first=True,
    )
    reads = caller.may(report.READ)
    result: ActionList = {
        "items": [
            without_mail(caller, find.describe_action(action, reads=reads))
            for action in find.open_shown(page)
        ]
    }
    if next_cursor:
        result["next_cursor"] = next_cursor
    return result
