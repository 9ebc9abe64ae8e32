"""The words of a program about its proposal, beside the content: a reason, metadata, a callback."""

from accounts.access.caller import Caller
from approvals.core.types import Remarks
from approvals.outbound.webhooks.subscriptions import refuse_callback
from tools.schemas import RemarkParameters


def read_remarks(parameters: RemarkParameters) -> Remarks:
    """Return the remarks of a call."""
    return Remarks(
        reason=parameters.reason or "",
        metadata=parameters.metadata or {},
        callback_url=parameters.callback_url or "",
    )


def check_callback(caller: Caller, parameters: RemarkParameters) -> None:
    """Raise Problem if the steps of the proposal cannot go to the callback address."""
    if parameters.callback_url is not None:
        refuse_callback(caller, parameters.callback_url)
