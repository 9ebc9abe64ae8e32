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


class ProviderError(Exception):
    """Something went wrong at the provider.

    The class says what is known about the effect; `code` goes to people.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


class NotSent(ProviderError):
    """The provider certainly did nothing."""


class Unavailable(NotSent):
    """Not reachable or not now; `retry_after` in seconds when the provider said so.

    `pauses`: it said so of everything, not of this message alone.
    """

    def __init__(
        self, code: str, detail: str = "", *, retry_after: int | None = None, pauses: bool = False
    ) -> None:
        super().__init__(code, detail)
        self.retry_after = retry_after
        self.pauses = pauses


class Refused(NotSent):
    """A definite no: unknown message, invalid recipient, too large, policy."""


class NotFound(Refused):
    """There is no such message, draft, folder or attachment, or it is not visible here."""

    def __init__(self, detail: str = "") -> None:
        super().__init__("not_found", detail)


class NotPermitted(Refused):
    """The access lacks a permission: connecting again with it helps, trying again does not."""

    def __init__(self, required_scope: str, detail: str = "") -> None:
        super().__init__(
            "auth_error",
            detail or f"The mailbox was connected without the permission {required_scope}.",
        )
        self.required_scope = required_scope


class NotAuthorized(NotSent):
    """The mailbox must be reconnected."""


class Busy(Unavailable):
    """It is we who call the mailbox too often at once: its server was not asked and is not to
    blame.
    """


class TokenRefused(NotSent):
    """The access token was refused and has been renewed: this call is not made again, a later one
    may succeed.

    It says nothing about what was asked for, so it is no Refused; nor is it Unavailable, which a
    read waits for.
    """


class OutcomeUnknown(ProviderError):
    """The request left us and no verdict came."""


class Unsupported(NotSent):
    """This provider cannot express that; it is refused, never dropped in silence."""
