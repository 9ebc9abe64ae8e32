"""The warning about what criminals change in a mail: bank details, and links that hide their owner."""

import re
from ipaddress import ip_address
from itertools import chain

from accounts.infra.texts import translatable
from tools.mail.message.compose import OutgoingMessage
from tools.mail.text.addresses import domain_of
from tools.warnings.checks import Found, check
from tools.warnings.context import Context, begin_and_end, own_words
from tools.warnings.targets import hosts_of_links

BANK = r"(?:bank(?:ing)? (?:account|details|information)|account (?:number|details)|payment details|iban)"
KONTO = r"(?:bankverbindung|kontoverbindung|bankdaten|kontodaten|kontonummer|bankkonto|iban)"
COMPTE = r"(?:coordonnées bancaires|compte bancaire|domiciliation bancaire|\brib\b|iban)"
CUENTA = r"(?:cuenta bancaria|datos bancarios|número de cuenta|iban)"
SENTENCE = r"(?:[^.\n]|(?<=\d)\.|\.(?=\d))"
CHANGES = (
    rf"\b{BANK}\b{SENTENCE}{{0,40}}\b(?:changed|been updated|is new|are new|were updated)\b",
    rf"\b(?:new|changed|updated) {BANK}\b",
    rf"\b(?:moved|changed|switched){SENTENCE}{{0,20}} (?:bank(?:s|ing)?|business banking)\b",
    rf"\b{KONTO}\b{SENTENCE}{{0,60}}\b(?:geändert|aktualisiert|gewechselt|umgestellt)\b",
    rf"\b(?:neue[rnms]?|geänderte[rn]?) {KONTO}\b|\b(?:bank gewechselt|bankwechsels?|wechsel unserer (?:haus)?bank"
    rf"|neue[sn]? konto)\b",
    rf"{COMPTE}{SENTENCE}{{0,40}}(?:\bont changé|\ba changé|\bmodifié|\bmis(?:es)? à jour)",
    rf"\bnouve(?:au|aux|lle|lles) {COMPTE}|\bchangement de (?:notre |nos |la )?(?:{COMPTE}|banque)"
    rf"|\bchangé de banque\b",
    rf"\b{CUENTA}\b{SENTENCE}{{0,40}}(?:\bcambiad|\bcambió|\bactualizad|\bmodificad)",
    rf"\bnuev[ao]s? {CUENTA}\b|\bcambi(?:ado|amos|o) de (?:entidad bancaria|banco|cuenta)\b",
    r"(?:银行|收款|付款)(?:账[户号]|帐[户号]|信息)[^。\n]{0,20}(?:已?变更|已?更改|已?更新|更换|变动|有误)",
    r"更换(?:了)?开户(?:银?行)|改[汇付打]至|新(?:开立)?的?(?:银行|收款|欧元|美元)(?:账[户号]|帐[户号]|信息)",
    r"(?:振込先|銀行口座|お振込口座|口座情報)[^。\n]{0,20}(?:変更(?!は?(?:ございません|ありません|なし))"
    r"|変わり(?!は?(?:ません|ございません|な[くい]))|更新)",
    r"新しい(?:振込先|銀行口座|口座)|取引銀行[^。\n]{0,10}変更",
)
ACCOUNT = (
    r"(?:\b[A-Z]{2}\d{2}(?: ?[0-9A-Z]{4}){2,7}(?: ?[0-9A-Z]{1,4})?\b|sort code|routing number|account number"
    r"|\biban\b|\bblz\b"
    r"|\bkontonummer\b|\bkonto\b|\bcompte\b|\brib\b|\bcuenta\b|账[户号]|帐[户号]|口座|\baccount\b)"
)
# The money goes elsewhere than before: to a person, a partner or a buyer of the claim, or not to the old account.
ELSEWHERE = (
    rf"{ACCOUNT}[^\n]{{0,80}}\b(?:audit(?:ed)?|frozen|blocked|suspended|gesperrt|bloqué|bloquead[ao]|migración)\b",
    rf"\b(?:do not|don['’]t|no longer|stop)\b{SENTENCE}{{0,30}}\b(?:us(?:e|ing)"
    rf"|pay(?:ing)?)\b{SENTENCE}{{0,30}}\baccount\b",
    rf"\b(?:bisherige|alte|frühere)[nrs]? (?:konto|kontodaten|bankverbindung)\b{SENTENCE}{{0,40}}\b(?:nicht mehr"
    rf"|gesperrt|geschlossen)",
    rf"\bne (?:plus )?(?:pas )?(?:utilis|vers|pay|régl)\w*{SENTENCE}{{0,40}}\b(?:ancien|compte)|\bancien (?:rib"
    rf"|compte)\b",
    rf"\bno (?:debe|deben|use|utilice|ingrese|pague)\w*{SENTENCE}{{0,40}}\bcuenta|\bno a la cuenta\b"
    rf"|\bcuenta (?:de siempre|anterior)\b",
    r"(?:不要|勿再?|请勿)[^。\n]{0,12}(?:付款|汇款|使用[^。\n]{0,6}账)|原账[户号][^。\n]{0,10}(?:不再|停用|已)"
    r"|账[户号][^。\n]{0,12}(?:年审|冻结|不能入账|暂停)",
    r"口座(?:ではなく|は[^。\n]{0,16}(?:利用|使用)(?:できません|しないで))|(?:旧|従来の)口座",
    rf"(?i:\b(?:pay|transfer|send|remit|settle|überweis\w*|zahl\w*|begleich\w*|anweisen|régl\w*|vers\w+|virement\w*"
    rf"|ingres\w+"
    rf"|abon\w+|pag(?:o|ar|ue|uen)|transfer\w+)\b){SENTENCE}{{0,60}}(?i:\b(?:instead(?! of)|this time|stattdessen"
    rf"|diesmal|à la place|cette fois|en su lugar|esta vez)\b)",
    rf"\b(?:from (?:today|now on)|künftig|ab sofort|ab dem|désormais|à partir d"
    rf"|a partir de){SENTENCE}{{0,80}}{ACCOUNT}",
    rf"\b(?:schwester|tochter|partner)\w{{0,20}}{SENTENCE}{{0,60}}(?:iban|{ACCOUNT})"
    rf"|\bnotre partenaire\b{SENTENCE}{{0,60}}\bcompte\b"
    rf"|\b(?:filial|empresa asociada)\b{SENTENCE}{{0,60}}{ACCOUNT}|(?:partner|affiliate"
    rf"|subsidiary){SENTENCE}{{0,40}}\baccount\b",
    r"(?:合作方|合作公司|子公司|关联公司|第三方)[^。\n]{0,10}账[户号]|(?:提携|関連|グループ)会社の口座",
    rf"\b(?:personal|private|own|privat\w*|personnel|personal|particular)\b{SENTENCE}{{0,16}}{ACCOUNT}"
    rf"|{ACCOUNT}{SENTENCE}{{0,16}}\b(?:personal|privat\w*|personnel|particular)\b|个人(?:账[户号]|的?支付宝"
    r"|的?微信)|個人(?:の)?口座|(?:打|转|汇|付)到(?:我|他|她)[^。\n]{0,8}(?:卡|账[户号])"
    r"|\bnicht (?:mehr )?an uns,? sondern\b|\bno a nosotros,? sino\b|\bnot to us,? but\b|\bnon plus à nous,? mais\b",
    rf"\b(?:directly to|direkt an|directement à|directamente a){SENTENCE}{{0,60}}{ACCOUNT}|\bkontoinhaber(?:in)?\b"
    rf"|\baccount holder\b",
    rf"\b(?:assigned|sold) to\b{SENTENCE}{{0,40}}\b(?:factor|finance)|\bfactoring\b|\bcedido el cobro\b|\babgetreten\b"
    r"|\bcession de créances?\b|\bcédé (?:la|notre|nos) créances?\b|债权[^。\n]{0,10}转让|債権[^。\n]{0,30}譲渡",
    r"\b(?:western union|moneygram|bitcoin|btc|ethereum|crypto(?:currency)? wallet|gift cards?|paysafecard"
    r"|transcash)\b",
    r"usd[tc](?![a-z])|trc20|\bcartes? prépayées?\b|\bcoupons? pcs\b|\bguthabenkarten?\b"
    r"|\btarjetas? (?:de )?(?:regalo|prepago)\b|礼品卡|比特币|泰达币|ギフトカード|仮想通貨",
    r"(?:\b(?:paypal|venmo|zelle|cash ?app|bizum|lydia|wero|twint|revolut|paylib)\b|支付宝|微信(?:支付|转账)|paypay"
    r"|linepay)"
    r"[^\n。]{0,60}(?:[+0]\d[\d -]{6,}|\d{3} \d{2}[\d ]{3,}|@\w|\bid ?[:：「]|friends and family)",
    r"\bopened a (?:separate|new) account\b|\bnicht (?:mehr )?(?:wie|auf das)[^.\n]{0,40}konto\b[^.\n]{0,40}sondern\b"
    r"|\bchèques? à l['’]ordre de\b[^.\n]{0,80}\bdirectement\b",
)
_CHANGE = tuple(re.compile(pattern, re.IGNORECASE) for pattern in CHANGES)
_ELSEWHERE = tuple(re.compile(pattern, re.IGNORECASE) for pattern in ELSEWHERE)
# An account of a portal can be new, personal or closed too; only near such words it is one for money.
_MONEY = re.compile(
    r"[€£$]|\b(?:eur|usd|gbp|euros?|pounds?|invoices?|payments?|pay|paid|remittances?|deposit|fees?|balance|gifts|donations?"
    r"|funds?|rechnung\w*|zahl\w*|überweis\w*|anzahlung|restbetrag|hausgeld|kaufpreis|posten|verwendungszweck"
    r"|factures?|virements?|règlements?|régl\w*|acompte|cotisation|solde|encaissements?|facturas?|transferencias?|pagos?"
    r"|pagar|abon\w+|ingresos?|ingres\w+|importes?|cobro|saldo|pagues?|anticipo"
    r"|bank transfers?|instal?lments?|settle|wallet|cartera|bitcoin|btc|ethereum|usd[tc]|gift cards?)\b|trc-?20"
    r"|gebühr|ギフトカード|残金|内金|円|款|汇|付|费|定金|支払|振込|振り込|送金|料|代金",
    re.IGNORECASE,
)
NEAR = 160
_NOTHING_NEW = re.compile(
    r"\b(?:has|have|had) not changed\b|\bunchanged\b|\bremains? the same\b|\b(?:nicht|nichts) geändert\b"
    r"|\bunverändert\b"
    r"|\bn['’](?:a|ont|avons) pas (?:changé|modifié)\b|\brest(?:e|ent) inchangé|\bno (?:ha|han|hemos|se ha) cambiad"
    r"|没有(?:任何)?(?:变|更|改)|未(?:变|更|改)|从未|不变|変更(?:は)?(?:ございません|ありません|なし)"
    r"|変わり(?:は)?(?:ません|ございません|な[くい])",
    re.IGNORECASE,
)
# A mail that warns about somebody else's false account names none.
_OF_FRAUD = re.compile(
    r"\b(?:scam|phishing|fraud(?:ulent|ster)?s?|fake|betrüg\w*|gefälscht\w*|fraudule\w*|arnaque|hameçonnage|estafa"
    r"|fraude|falso"
    r"|fraudulent[oa]s?)\b|诈骗|冒充|欺诈|詐欺|なりすまし|偽の",
    re.IGNORECASE,
)
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[0-9A-Z]{4}){2,7}\b")
SHORTENERS = frozenset(
    """
    bit.ly tinyurl.com t.co goo.gl is.gd v.gd ow.ly buff.ly rebrand.ly cutt.ly rb.gy shorturl.at t.ly tiny.cc
    s.id soo.gd bl.ink short.io x.gd t1p.de urlz.fr acortar.link lnkd.in kutt.it shorturl.asia ouo.io clck.ru
    tny.im qr.ae adf.ly dwz.cn t.cn suo.im url.cn u.nu
    """.split()
)


_BARE_SHORTENER = re.compile(
    rf"(?<![\w.@/-])({'|'.join(map(re.escape, sorted(SHORTENERS)))})/\w", re.IGNORECASE
)


@check(
    translatable("Bank details change."),
    translatable("bank details or hidden link"),
    severity="risk",
    of_text=True,
)
def payment_details(message: OutgoingMessage, context: Context) -> Found | str | None:
    """Warn if a mail that leaves the company tells of another bank account, or has a link to a bare
    number or through a shortener. An IBAN without such words is not named, because a company prints
    its own on every invoice.
    """
    if {domain_of(address) for address in message.recipients} <= context.own_domains:
        return None
    words = begin_and_end(own_words(message, context))
    if _tells_of_a_change(f"{message.request.subject}\n{words}"):
        return translatable(
            "It tells somebody outside your company about another bank account. Ask the person who decided that."
        )
    bare = (found[1].lower() for found in _BARE_SHORTENER.finditer(words))
    hosts = (*hosts_of_links(message, context), *bare)
    hidden = next((host for host in hosts if _hides_owner(host)), None)
    if hidden is None:
        return None
    return Found(
        title=translatable("A link hides where it leads."),
        text=translatable("Nobody can tell by %(host)s who answers there.", host=hidden),
    )


def _tells_of_a_change(text: str) -> bool:
    if _OF_FRAUD.search(text) and not _IBAN.search(text):
        return False
    changes = (found for each in _CHANGE for found in each.finditer(text))
    elsewhere = (
        found for each in _ELSEWHERE for found in each.finditer(text) if _is_near_money(found)
    )
    return any(
        not _NOTHING_NEW.search(_sentence_around(found)) for found in chain(changes, elsewhere)
    )


def _is_near_money(found: re.Match[str]) -> bool:
    return bool(_MONEY.search(found.string, max(0, found.start() - NEAR), found.end() + NEAR))


def _sentence_around(found: re.Match[str]) -> str:
    before = re.split(r"[.!?](?=\s)|[。！？\n]", found.string[: found.end()][-300:])[-1]
    after = re.split(r"[.!?](?=\s)|[。！？\n]", found.string[found.end() :][:200])[0]
    return before + after


def _hides_owner(host: str) -> bool:
    if host.removeprefix("www.") in SHORTENERS:
        return True
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
