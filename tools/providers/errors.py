"""The errors of providers. Each class says whether the mail can have left.

ProviderError
├── NotSent               nothing was done
│   ├── Unavailable       not reachable, or not now: a retry may succeed
│   │   └── Busy          our own concurrency limit; the provider was not called
│   ├── Refused           a definite no: a retry changes nothing
│   │   ├── NotFound      there is no such message, draft, folder or attachment
│   │   └── NotPermitted  the access lacks a permission
│   ├── NotAuthorized     the mailbox must be reconnected
│   ├── TokenRefused      the token was renewed; a later call may succeed
│   └── Unsupported       this provider cannot express it
└── OutcomeUnknown        the request was sent and no answer came
"""

from accounts.infra.texts import translatable
from approvals.core.types import Proof


class ProviderError(Exception):
    """A failure at the provider.

    The class says whether the mail can have left; `code` is shown to people.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


class NotSent(ProviderError):
    """A failure in which the provider did nothing.

    After the wire was started that needs a `proof`; without one the outcome is unknown.
    """

    proof: Proof | None = None


class Unavailable(NotSent):
    """The provider is not reachable or not ready; `retry_after` is in seconds, if the provider gave
    it.

    `pauses`: the provider meant the whole mailbox, not only this message. `answers`: it refused this
    message for now, so the mailbox is reachable.
    """

    def __init__(
        self,
        code: str,
        detail: str = "",
        *,
        retry_after: int | None = None,
        pauses: bool = False,
        answers: bool = False,
    ) -> None:
        super().__init__(code, detail)
        self.retry_after = retry_after
        self.pauses = pauses
        self.answers = answers


class Refused(NotSent):
    """A definite refusal: unknown message, invalid recipient, too large, policy."""


class NotFound(Refused):
    """There is no such message, draft, folder or attachment, or it is not visible here."""

    def __init__(self, detail: str = "") -> None:
        super().__init__("not_found", detail)


class NotPermitted(Refused):
    """The access lacks a permission. Connecting again with it helps, a retry does not."""

    def __init__(self, required_scope: str, detail: str = "") -> None:
        super().__init__(
            "auth_error",
            detail
            or translatable(
                "The mailbox was connected without the permission %(scope)s.", scope=required_scope
            ),
        )
        self.required_scope = required_scope


class NotAuthorized(NotSent):
    """The access has ended; the mailbox must be reconnected."""


class Busy(Unavailable):
    """Too many calls of mailhub on this mailbox at once. Its server was not asked and is not to
    blame.
    """


class TokenRefused(NotSent):
    """The access token was refused and has been renewed. This call is not repeated; a later one may
    succeed.

    It says nothing about the request, so it is not Refused. It is not Unavailable either, because a
    read waits for that.
    """


class OutcomeUnknown(ProviderError):
    """The request left mailhub and no clear answer came."""


class Unsupported(NotSent):
    """The provider cannot express the request, so the request is refused and never silently
    reduced.
    """
