"""The masking of tokens and secrets in text for a model, a log or a row. Pure.

Ids stay: a model needs a team's id for its next call, and an id gives no access. Each pattern
starts with something fixed and is bounded or possessive, so that no text takes long. Still, pass no
more text than is used.
"""

import re

MASK = "[redacted]"
CUT = " …[truncated]"
# A member or parameter with the name of a secret, and its value: quoted, or up to a blank.
_NAMED = re.compile(
    r"""(?ix) (?P<name> (?: passw(?:or)?d | passphrase | secret | api[_-]?key | access[_-]?token
        | refresh[_-]?token | id[_-]?token | session[_-]?token | private[_-]?key | client[_-]?assertion
        | authorization | credential ) s? \w{0,20} \\?["']? \s{0,3} (?: [:=] \s{0,3} | (?<=\w)\s(?=["']) ) )
        (?: (?P<open> \\?["'] ) (?: (?! (?P=open) ) (?: \\. | [^\\] ) )*+ (?P=open)
          | (?: (?: bearer | basic ) \s )? [^\s"',;}&\\]++ )"""
)
_SHAPED = re.compile(
    r"""(?x)
      -----BEGIN\ [A-Z ]{0,30}PRIVATE\ KEY----- [\s\S]*? (?: -----END\ [A-Z ]{0,30}PRIVATE\ KEY----- | \Z )
    | \beyJ (?: (?! -eyJ ) [\w-] ){8,4000}+ \.[\w-]{8,8000}+ (?: \.[\w-]{0,4000}+ )?     # a JSON Web Token
    | \b(?i:bearer|basic)\s[\w.~+/=-]{16,8000}
    | \bmh_[\w-]{20,200}                                        # ours
    | \bsk-[\w-]{16,300} | \bgh[pousr]_\w{20,300} | \bxox[abprs]-[\w-]{10,300} | \bAKIA[0-9A-Z]{16}\b
    | \bya29\.[\w-]{16,4000}
    | (?<=/sign-in/)[\w-]{20,200}
    """
)


def redact(text: str) -> str:
    """Return the text with everything masked that looks like a token, a key or a password.

    JSON stays JSON.
    """
    return _NAMED.sub(_mask, _SHAPED.sub(MASK, text))


def make_storable(text: str) -> str:
    """Return foreign text with another character for NUL and halves of a surrogate pair."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def shorten(text: str, most: int) -> str:
    """Return the first `most` characters, masked and storable, with a mark if there were more."""
    # Masked before the cut, because otherwise half a token could remain. Text far behind the cut is
    # not searched.
    text = redact(make_storable(text[: 4 * most]))
    return text if len(text) <= most else text[:most] + CUT


def _mask(found: re.Match[str]) -> str:
    quote = found["open"] or ""
    return f"{found['name']}{quote}{MASK}{quote}"
