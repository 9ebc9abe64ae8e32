"""The warning about what criminals change in a mail: bank details, and links that hide their owner."""

import re
from ipaddress import ip_address

from accounts.infra.texts import translatable
from approvals.core.types import PreviewWarning
from tools.mail.message.compose import OutgoingMessage
from tools.mail.text.addresses import domain_of
from tools.warnings.context import Context, own_words
from tools.warnings.targets import hosts_of_links

BANK = r"(?:bank(?:ing)? (?:account|details|information)|account (?:number|details)|payment details|iban)"
KONTO = r"(?:bankverbindung|kontoverbindung|bankdaten|kontodaten|kontonummer|bankkonto|iban)"
COMPTE = r"(?:coordonnées bancaires|compte bancaire|\brib\b|iban)"
CUENTA = r"(?:cuenta bancaria|datos bancarios|número de cuenta|iban)"
CHANGES = (
    rf"\b{BANK}\b[^.\n]{{0,40}}\b(?:changed|been updated|is new|are new|were updated)\b",
    rf"\b(?:new|changed|updated) {BANK}\b",
    rf"\b{KONTO}\b[^.\n]{{0,60}}\b(?:geändert|aktualisiert|gewechselt|umgestellt)\b",
    rf"\b(?:neue[rnms]?|geänderte[rn]?) {KONTO}\b",
    rf"{COMPTE}[^.\n]{{0,40}}(?:\bont changé|\ba changé|\bmodifié|\bmis(?:es)? à jour)",
    rf"\bnouve(?:au|aux|lle|lles) {COMPTE}",
    rf"\b{CUENTA}\b[^.\n]{{0,40}}(?:\bcambiad|\bcambió|\bactualizad|\bmodificad)",
    rf"\bnuev[ao]s? {CUENTA}\b",
    r"(?:银行|收款|付款)(?:账[户号]|帐[户号]|信息)[^。\n]{0,20}(?:变更|更改|更新|更换|变动)",
    r"新的?(?:银行|收款)(?:账[户号]|帐[户号]|信息)",
    r"(?:振込先|銀行口座|お振込口座|口座情報)[^。\n]{0,20}(?:変更|変わり|更新)",
    r"新しい(?:振込先|銀行口座|口座)",
)
_CHANGE = re.compile("|".join(CHANGES), re.IGNORECASE)
SHORTENERS = frozenset(
    """
    bit.ly tinyurl.com t.co goo.gl is.gd v.gd ow.ly buff.ly rebrand.ly cutt.ly rb.gy shorturl.at t.ly tiny.cc s.id
    soo.gd bl.ink short.io tny.im qr.ae adf.ly dwz.cn t.cn suo.im url.cn u.nu
    """.split()
)


def payment_details(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    """Return a warning, if the mail leaves the company, about a change of bank details, and about
    links to a bare number or through a shortener.

    An IBAN without such words is not one, because a company prints its own on every invoice.
    """
    if {domain_of(address) for address in message.recipients} <= context.own_domains:
        return None
    if _CHANGE.search(f"{message.request.subject}\n{own_words(message, context)}"):
        return PreviewWarning(
            code="payment_details",
            title=translatable("Bank details change."),
            text=translatable(
                "It tells somebody outside your company about another bank account. Ask the person who decided that."
            ),
            severity="risk",
        )
    hidden = next((host for host in hosts_of_links(message, context) if _hides_owner(host)), None)
    if hidden is None:
        return None
    return PreviewWarning(
        code="payment_details",
        title=translatable("A link hides where it leads."),
        text=translatable("Nobody can tell by %(host)s who answers there.", host=hidden),
        severity="risk",
    )


def _hides_owner(host: str) -> bool:
    if host.removeprefix("www.") in SHORTENERS:
        return True
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
