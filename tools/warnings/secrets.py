"""The search for secrets in a mail: keys, tokens, passwords, card numbers. Pure.

An IBAN is not a secret, because a company prints its own on every invoice.
"""

import re

KEYS = (
    (r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----", "a private key"),
    (r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", "an access key of Amazon"),
    (r"\bgh[pousr]_[A-Za-z0-9]{36,}\b|\bgithub_pat_[A-Za-z0-9_]{22,}", "a token of GitHub"),
    (r"\bglpat-[\w-]{20,}", "a token of GitLab"),
    (r"\bxox[abeoprs]-[\w-]{10,}", "a token of Slack"),
    (r"\b[rs]k_live_[A-Za-z0-9]{16,}", "a key of Stripe"),
    (r"\bAIza[\w-]{35}", "a key of Google"),
    # A match ends before the possible start of another, so each character is read once.
    (
        r"\bsk-(?:proj-|ant-|svcacct-)?(?=(?:(?!\d|-sk-)[\w-])*+\d)(?=(?:(?![A-Z]|-sk-)[\w-])*+[A-Z])"
        r"(?:(?!-sk-)[A-Za-z0-9_-]){32,}+",
        "a key of a language model",
    ),
    (r"\bnpm_[A-Za-z0-9]{36}\b|\bpypi-[\w-]{50,}", "a token of a package registry"),
    (r"\bmh_[\w-]{30,}", "a token of mailhub"),
    (
        r"\beyJ(?:(?!-eyJ)[\w-]){10,}+\.eyJ(?:(?!-eyJ)[\w-]){10,}+\.[\w-]{10,}+",
        "a signed token",
    ),
    (
        r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{1,80}:[^\s:/@]{4,80}@[\w.-]+",
        "an address with a password in it",
    ),
)
FINDERS = tuple((re.compile(pattern), what) for pattern, what in KEYS)
# The word, a connecting word or sign, and a value with a letter and a digit: passwords have both,
# and words after "is" do not.
PASSWORD = re.compile(
    r"(?:\b(?:pass(?:word|wd|phrase)|passwor[dt]|kennwort|zugangscode)\b|密码|密碼|口令)"
    r"(?:\s*(?:[:=：]|\b(?:is|ist|lautet)\b|是|为|為))+\s*[\"'“„»「]?(?P<value>[!-~]{6,64})",
    re.IGNORECASE,
)
IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[0-9A-Z]{4}){2,7}(?: ?[0-9A-Z]{1,4})?\b")
NUMBER = re.compile(r"(?<![\w+./-])\d(?:[ -]?\d){12,18}(?![\w-])")
# First digits and lengths of the large card schemes (ISO/IEC 7812).
CARDS = re.compile(
    r"4\d{15}|4\d{12}|4\d{18}|5[1-5]\d{14}|2(?:2[2-9]|[3-6]\d|7[01])\d{13}|3[47]\d{13}|6(?:011|5\d\d)\d{12}|35\d{14}"
    r"|62\d{14,17}"
)


def found_in(text: str) -> str | None:
    """Return a description of the secret that was found, or None."""
    for finder, what in FINDERS:
        if finder.search(text):
            return what
    if any(_is_password(match["value"]) for match in PASSWORD.finditer(text)):
        return "a password"
    without_accounts = IBAN.sub(" ", text)
    if any(is_card(re.sub(r"[ -]", "", match[0])) for match in NUMBER.finditer(without_accounts)):
        return "a card number"
    return None


def is_card(digits: str) -> bool:
    """Return True if it begins like a card number and its check digit is correct (Luhn)."""
    if not CARDS.fullmatch(digits):
        return False
    doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits)))
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


def _is_password(value: str) -> bool:
    if "://" in value or value.count("*") > 2:
        return False
    value = value.rstrip(".,;:!?)\"'")
    return len(value) >= 6 and any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
