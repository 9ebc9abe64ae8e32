"""The names that mail programs and providers give to folders with a role, on servers without SPECIAL-USE.

In lower case. An earlier name wins over a later one at the same depth. Each line says where its names are from:
Thunderbird (the localized folders of its accounts), Outlook and Exchange (the folders that they create in this
language), Apple Mail (on IMAP accounts), Gmail (under `[Gmail]`), or a large provider by its name.
"""

from collections.abc import Mapping

NAMES: Mapping[str, tuple[str, ...]] = {
    "sent": (
        "sent",  # Thunderbird, Dovecot, Cyrus, Courier
        "sent items", "sentitems",  # Outlook and Exchange, English
        "sent messages",  # Apple Mail, English
        "sent mail", "sent-mail",  # Gmail, English; Horde and IMP
        "gesendet",  # Thunderbird, GMX and web.de, German
        "gesendete elemente", "gesendete objekte",  # Outlook and Exchange, older Outlook and Apple Mail, German
        "éléments envoyés", "envoyés", "messages envoyés",  # Outlook, Thunderbird, Gmail and Apple Mail, French
        "objets envoyés",  # older Outlook, Orange, French
        "elementos enviados", "enviados", "mensajes enviados",  # Outlook, Thunderbird and Gmail, Spanish
        "itens enviados", "mensagens enviadas", "e-mails enviados",  # Outlook, Apple Mail and Gmail, Portuguese
        "posta inviata", "inviati", "inviata",  # Outlook, Thunderbird, Apple Mail and Libero, Italian
        "verzonden items", "verzonden", "verzonden berichten",  # Outlook, Thunderbird, Gmail, Dutch
        "elementy wysłane", "wysłane",  # Outlook, Thunderbird, WP and Onet, Polish
        "отправленные", "отправленные элементы",  # Thunderbird, Yandex and Mail.ru, Outlook, Russian
        "已发送", "已发送邮件", "已傳送郵件", "寄件備份", "寄件匣備份",  # NetEase and QQ, Outlook, Chinese
        "送信済みアイテム", "送信済み", "送信済みトレイ", "送信済みメール",  # Outlook, Thunderbird, Gmail, Japanese
        "보낸 편지함", "보낸편지함", "보낸메일함",  # Outlook, Gmail, Naver, Korean
        "gönderilmiş öğeler", "gönderilenler", "gönderilmiş postalar",  # Outlook, Thunderbird, Gmail, Turkish
        "skickat", "skickade objekt",  # Thunderbird and Outlook, Swedish
        "sendt post", "sendte elementer", "sendt",  # Outlook, Danish and Norwegian
        "odeslaná pošta", "odeslané",  # Outlook, Thunderbird and Seznam, Czech
        "lähetetyt", "lähetetyt viestit",  # Thunderbird, Outlook, Finnish
        "elküldött elemek", "elküldött",  # Outlook, Thunderbird, Hungarian
    ),
    "drafts": (
        "drafts", "draft",  # Thunderbird, Outlook, Apple Mail and Gmail, English; NetEase
        "entwürfe",  # all of them, German
        "brouillons",  # all of them, French
        "borradores",  # all of them, Spanish
        "rascunhos",  # all of them, Portuguese
        "bozze",  # all of them, Italian
        "concepten",  # all of them, Dutch
        "wersje robocze", "robocze", "szkice",  # Outlook, Thunderbird, Onet, Polish
        "черновики",  # all of them, Russian
        "草稿", "草稿箱", "草稿匣",  # Outlook, NetEase and QQ, Chinese
        "下書き",  # all of them, Japanese
        "임시 보관함", "임시보관함",  # Outlook and Gmail, Naver, Korean
        "taslaklar",  # all of them, Turkish
        "utkast",  # all of them, Swedish and Norwegian
        "kladder",  # all of them, Danish
        "koncepty", "rozepsané",  # Outlook, Seznam, Czech
        "luonnokset",  # all of them, Finnish
        "piszkozatok",  # all of them, Hungarian
    ),
    "archive": (
        "archive", "archives",  # Thunderbird, Outlook, Apple Mail, English and French
        "archiv",  # Thunderbird, Outlook, German and Czech
        "archivo", "archivados", "archivar",  # Outlook, Thunderbird, Spanish
        "arquivo", "arquivo morto",  # Outlook, Portuguese
        "archivio",  # Outlook, Thunderbird, Italian
        "archief",  # Outlook, Thunderbird, Dutch
        "archiwum",  # Outlook, Thunderbird, Polish
        "архив",  # Outlook, Thunderbird, Russian
        "存档", "归档", "封存",  # Outlook, Thunderbird, Chinese
        "アーカイブ",  # Outlook, Thunderbird, Japanese
        "보관", "보관함",  # Outlook, Thunderbird, Korean
        "arşiv",  # Outlook, Thunderbird, Turkish
        "arkiv",  # Outlook, Thunderbird, Swedish, Danish and Norwegian
    ),
    "junk": (
        "junk", "spam",  # Thunderbird, Apple Mail; Gmail and most providers
        "junk e-mail", "junk email", "bulk mail",  # Outlook and Exchange, English; Yahoo
        "junk-e-mail", "spamverdacht", "werbung",  # Outlook, GMX and web.de, Apple Mail, German
        "courrier indésirable", "indésirables", "pourriel",  # Outlook, Thunderbird, Orange, French
        "correo no deseado", "no deseado",  # Outlook, Thunderbird, Spanish
        "lixo eletrônico", "lixo eletrónico", "email de lixo",  # Outlook, Portuguese
        "posta indesiderata", "indesiderata",  # Outlook, Thunderbird, Italian
        "ongewenste e-mail", "ongewenst",  # Outlook, Thunderbird, Dutch
        "wiadomości-śmieci", "niechciane",  # Outlook, Thunderbird, Polish
        "нежелательная почта", "спам",  # Outlook, Yandex and Mail.ru, Russian
        "垃圾邮件", "垃圾郵件", "广告邮件",  # Outlook, NetEase, Chinese
        "迷惑メール",  # all of them, Japanese
        "정크 메일", "정크 전자 메일", "스팸메일함", "스팸함",  # Outlook, Naver, Gmail, Korean
        "gereksiz e-posta", "önemsiz e-posta",  # Outlook, Turkish
        "skräppost", "uønsket e-mail", "søppelpost",  # Outlook, Swedish, Danish and Norwegian
    ),
    "trash": (
        "trash",  # Thunderbird, Gmail, Dovecot, Courier
        "deleted items", "deleted messages", "bin",  # Outlook and Exchange, Apple Mail, Gmail, English
        "papierkorb", "gelöscht", "gelöschte elemente", "gelöschte objekte",  # Thunderbird, GMX, Outlook, German
        "corbeille", "éléments supprimés", "messages supprimés",  # Thunderbird and Gmail, Outlook, Apple Mail, French
        "papelera", "elementos eliminados",  # Thunderbird and Gmail, Outlook, Spanish
        "lixeira", "lixo", "itens excluídos", "itens eliminados",  # Thunderbird and Gmail, Outlook, Portuguese
        "cestino", "posta eliminata",  # Thunderbird and Gmail, Outlook, Italian
        "prullenbak", "prullenmand", "verwijderde items",  # Thunderbird and Gmail, Apple Mail, Outlook, Dutch
        "kosz", "elementy usunięte",  # Thunderbird and Gmail, Outlook, Polish
        "корзина", "удаленные", "удалённые",  # Thunderbird and Mail.ru, Outlook, Russian
        "已删除", "已删除邮件", "刪除的郵件", "垃圾桶",  # NetEase, Outlook, Gmail, Chinese
        "ゴミ箱", "ごみ箱", "削除済みアイテム",  # Thunderbird, Gmail, Outlook, Japanese
        "휴지통", "지운 편지함",  # Thunderbird, Gmail and Naver, Outlook, Korean
        "çöp", "çöp kutusu", "silinmiş öğeler",  # Thunderbird, Gmail, Outlook, Turkish
        "papperskorgen", "borttagna objekt", "slettet post", "slettede elementer",  # Apple Mail, Outlook, Nordic
        "koš", "odstraněná pošta",  # Thunderbird and Seznam, Outlook, Czech
    ),
}  # fmt: skip
