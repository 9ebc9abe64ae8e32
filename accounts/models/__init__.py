"""People, mailboxes, the roles of people on mailboxes, and the tokens of programs."""

from accounts.models.keyed_calls import KeyedCall
from accounts.models.mailboxes import Invitation, Mailbox, Membership, TokenRefresh
from accounts.models.people import (
    AddressCode,
    FailedSignIns,
    Role,
    SignInLink,
    SignInPlace,
    User,
    UserManager,
    digest_of,
)
from accounts.models.tokens import (
    CHAT_NAME,
    SCOPE_ROLES,
    SCOPES,
    STAFF_SCOPES,
    USUAL_SCOPES,
    ApiToken,
    QuotaUse,
    RequestRecord,
    allowed_scopes,
)

__all__ = [
    "CHAT_NAME",
    "SCOPES",
    "SCOPE_ROLES",
    "STAFF_SCOPES",
    "USUAL_SCOPES",
    "AddressCode",
    "ApiToken",
    "FailedSignIns",
    "Invitation",
    "KeyedCall",
    "Mailbox",
    "Membership",
    "QuotaUse",
    "RequestRecord",
    "Role",
    "SignInLink",
    "SignInPlace",
    "TokenRefresh",
    "User",
    "UserManager",
    "allowed_scopes",
    "digest_of",
]
