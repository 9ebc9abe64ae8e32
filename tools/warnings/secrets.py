"""The search for secrets in a mail: keys, tokens, passwords, card numbers. Pure.

An IBAN is not a secret, because a company prints its own on every invoice.
"""

import re

from accounts.infra.texts import Translatable, translatable

KEYS = (
    (
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----",
        translatable("It seems to contain a private key."),
    ),
    (
        r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
        translatable("It seems to contain an access key of Amazon."),
    ),
    (
        r"\bgh[pousr]_[A-Za-z0-9]{36,}\b|\bgithub_pat_[A-Za-z0-9_]{22,}",
        translatable("It seems to contain a token of GitHub."),
    ),
    (r"\bglpat-[\w-]{20,}", translatable("It seems to contain a token of GitLab.")),
    (r"\bxox[abeoprs]-[\w-]{10,}", translatable("It seems to contain a token of Slack.")),
    (r"\b[rs]k_live_[A-Za-z0-9]{16,}", translatable("It seems to contain a key of Stripe.")),
    (r"\bAIza[\w-]{35}", translatable("It seems to contain a key of Google.")),
    # A match ends before the possible start of another, so each character is read once.
    (
        r"\bsk-(?:proj-|ant-|svcacct-)?(?=(?:(?!\d|-sk-)[\w-])*+\d)(?=(?:(?![A-Z]|-sk-)[\w-])*+[A-Z])"
        r"(?:(?!-sk-)[A-Za-z0-9_-]){32,}+",
        translatable("It seems to contain a key of a language model."),
    ),
    (
        r"\bnpm_[A-Za-z0-9]{36}\b|\bpypi-[\w-]{50,}",
        translatable("It seems to contain a token of a package registry."),
    ),
    (
        r"\bmh_(?=[\w-]{0,60}[A-Z])(?=[\w-]{0,60}\d)[\w-]{30,}",
        translatable("It seems to contain a token of mailhub."),
    ),
    (
        r"\beyJ(?:(?!-eyJ)[\w-]){10,}+\.eyJ(?:(?!-eyJ)[\w-]){10,}+\.[\w-]{10,}+",
        translatable("It seems to contain a signed token."),
    ),
    (
        r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{1,80}:[^\s:/@]{4,80}@[\w.-]+",
        translatable("It seems to contain an address with a password in it."),
    ),
)
FINDERS = tuple((re.compile(pattern), sentence) for pattern, sentence in KEYS)
# The word, a connecting word or sign, and a value with a letter and a digit: passwords have both,
# and words after "is" do not.
PASSWORD = re.compile(
    r"(?:\b(?:pass(?:word|wd|phrase)|passwor[dt]|kennwort|zugangscode|mot\s+de\s+passe|contraseña)\b"
    r"|密码|密碼|口令|パスワード)"
    r"(?:\s+(?:for|of|to|für|zum|zur|vom|von|pour|du|de|des|del|para)(?:\s+[\w.'’-]{1,30}){1,4}?)?"
    r"(?:\s*(?:[:=：]|\b(?:is|ist|lautet|est|es)\b|是|为|為|は))+\s*[\"'“„»「]?(?P<value>[!-~]{6,64})",
    re.IGNORECASE,
)
# A place for a value, or words about a password: "<password1>", "12-character", "1Password-Eintrag".
NO_VALUE = re.compile(
    r"(?:[<{\[$][^<>]{0,40}(?:password|passwort|kennwort|your|user|value|insert|enter)[^<>]{0,40}[>}\]]"
    r"|\d{1,2}(?:FA)?-(?:char|digit|day|letter|protected|stellig|zeichen|minimum|factor)[\w-]*|1password(?:-[a-z]+)*)"
    r"[.,;:!?)]*",
    re.IGNORECASE,
)
IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[0-9A-Z]{4}){2,7}(?: ?[0-9A-Z]{1,4})?\b")
NUMBER = re.compile(r"(?<![\w+./-])\d(?:[ -]?\d){12,18}(?![\w-])")
# The label directly in front of a number that is not a card's.
LABEL = re.compile(
    r"(?:\b(?:order|tracking|shipment|parcel|consignment|invoice|reference|ref|booking|ticket|serial|imei|iccid|meter"
    r"|contract|customer|article|item|gtin|ean|case|phone|tel|fax|mobile|hotline|bestell(?:ung)?|auftrags?"
    r"|sendungs?|paket|rechnungs?"
    r"|referenz|vorgangs?|kunden|vertrags?|zähler|serien|artikel|buchungs?|konto|telefon|mobil|commande|suivi|colis"
    r"|facture|référence|contrat|client|téléphone|pedido|seguimiento|factura|referencia|contrato|envío|teléfono"
    r"|po|policy|police|account|mandatsreferenz|aktenzeichen|kassenzeichen|versicherungs?|dhl|ups|fedex|dpd|gls|hermes)"
    r"(?:[ -]?(?:numbers?|numéro|número|nummern?|nr|no|n[°º]|id|code))?(?:\s(?:is|ist|lautet|est|es))?"
    r"|订单号?|运单号?|单号|快递|编号|发票号?|订单编号|电话)[.:#：为是\s]{0,4}\Z",
    re.IGNORECASE,
)
LABEL_CHARACTERS, LINE_CHARACTERS = 40, 200  # before the number
CARD_WORD = re.compile(
    r"\b(?:(?:credit|debit)?[ -]?cards?|visa|mastercard|amex|cv[vc]2?|(?:kredit)?karten?|carte|tarjeta)\b|卡",
    re.IGNORECASE,
)
# A 13-digit number of this beginning is usually a German article number (EAN), seldom an old card.
ARTICLE = re.compile(r"4[0-4]\d{11}")
# First digits and lengths of the large card schemes (ISO/IEC 7812).
CARDS = re.compile(
    r"4\d{15}|4\d{12}|4\d{18}|5[1-5]\d{14}|2(?:2[2-9]|[3-6]\d|7[01])\d{13}|3[47]\d{13}|6(?:011|5\d\d)\d{12}|35\d{14}"
    r"|62\d{14,17}"
)


def find_secret(text: str) -> Translatable | None:
    """Return a sentence about the secret that was found, or None."""
    for finder, sentence in FINDERS:
        if finder.search(text):
            return sentence
    if any(_is_password(match["value"]) for match in PASSWORD.finditer(text)):
        return translatable("It seems to contain a password.")
    without_accounts = IBAN.sub(" ", text)
    if any(_is_shown_card(match) for match in NUMBER.finditer(without_accounts)):
        return translatable("It seems to contain a card number.")
    return None


def _is_shown_card(found: re.Match[str]) -> bool:
    """Return True for a card number, unless its line says that the number is another one."""
    digits = re.sub(r"[ -]", "", found[0])
    if not is_card(digits):
        return False
    begins = max(found.string.rfind("\n", 0, found.start()) + 1, found.start() - LINE_CHARACTERS)
    before = found.string[begins : found.start()]
    if CARD_WORD.search(before):
        return True
    return not ARTICLE.fullmatch(digits) and not LABEL.search(before[-LABEL_CHARACTERS:])


def is_card(digits: str) -> bool:
    """Return True if it begins like a card number and its check digit is correct (Luhn)."""
    if not CARDS.fullmatch(digits):
        return False
    doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits)))
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


def _is_password(value: str) -> bool:
    if "://" in value or value.count("*") > 2 or NO_VALUE.fullmatch(value):
        return False
    value = value.rstrip(".,;:!?)\"'")
    return len(value) >= 6 and any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
