"""Warnings about slips of a program: places that nobody filled in, and words of the model itself."""

import re

from accounts.infra.texts import translatable
from tools.mail.message.compose import OutgoingMessage
from tools.warnings.checks import check
from tools.warnings.context import Context, begin_and_end, own_words

FIELD = r"""
    (?:(?:your|his|her|their|client|customer|recipient|company|contact|sender|full|first|last|sur)['’]?s?[\s_]?)*
    (?:name|company|position|title|date|address|amount|phone(?:[\s_]number)?|link|signature|time|product|topic)
    |(?:ihr\s|dein\s|firmen|vor|nach|kunden)?name|datum|firma|betrag|(?:brief)?anrede|adresse|telefonnummer|ansprechpartner|uhrzeit
    |(?:votre\s|pr[ée])?nom(?:\sde\sfamille|\sdu\sclient)?|entreprise|montant|adresse|téléphone|société|civilité
    |(?:su\s|tu\s)?nombre(?:[\s_](?:del?[\s_])?[a-zñ]{4,12})?|apellidos?|fecha|empresa|importe|dirección
    |teléfono|precio
    |(?:您的|你的|客户|收件人|联系人|贵)?(?:姓名|名字|名称|公司名?称?|日期|金额|电话|职位|时间|地点)
    |(?:お|ご)?(?:名前|氏名|会社名|日付|日時|金額|電話番号|宛名|住所)|(?:御社|貴社|担当者)名
"""
# An editor's note in the place of a value.
NOTE = r"""
    (?:insert|enter|add|fill\sin|replace)\s|to\sbe\s(?:completed|confirmed|added|filled)|tb[acd]\b
    |(?:hier\s[^\[\]()<>\n]{0,30})?(?:einfügen|einsetzen|eintragen|ergänzen|nachtragen)
    |à\s(?:préciser|compléter|renseigner|définir)|insérer|compléter\sici
    |(?:insertar|poner|indicar|completar|rellenar)\saquí|por\s(?:completar|confirmar|definir)|insertar
    |请(?:填写|输入|补充)|此处(?:填写|填入|插入|补充)|填入|待(?:补充|填写|确认)
    |ここに|[^\[\]<>【】\n]{0,12}(?:を|して)(?:入力|記入|挿入)|要(?:確認|追記|記入)
"""
HERE = r"""
    \b(?:insert|enter|add|put)\b[^()\n]{0,40}\bhere\b|\bhier\b[^()\n]{0,40}(?:einfügen|einsetzen|eintragen|ergänzen|nachtragen)
    |\b(?:insérer|mettre|indiquer|ajouter|compléter)\s[^()\n]{0,40}\bici\b|\bici\b[^()\n]{0,40}(?:à\s)?(?:insérer|compléter)
    |\b(?:poner|insertar|indicar|añadir|completar)\s[^()\n]{0,20}\baquí\b|\baquí\b[^()\n]{0,20}\b(?:va|poner|insertar)\b
    |\bà\s(?:vérifier|confirmer|préciser|compléter)\b|\b(?:please|pls)\scheck\b[^()\n]{0,40}\bbefore\b|\bvor\sversand\b
    |\bcheck\swith\b[^()\n]{0,30}\bbefore\b|確認してから|送る前に|此处(?:填写|填入|插入|补充)|在此(?:填写|填入|插入)|ここに[^（）()\n]{0,20}(?:入力|記入|挿入)
"""
GREETING = (
    r"(?i:dear|hello|hi|good\s(?:morning|afternoon)|hallo|guten\s(?:tag|morgen)|sehr\sgeehrte[rs]?|liebe[rs]?|bonjour"
    r"|chère?|madame|monsieur|estimad[oa]s?|hola|buen[oa]s\s(?:días|tardes)|querid[oa]|尊敬的|亲爱的)"
)
PLACEHOLDERS = (
    r"\{\{[^{}\n]{1,60}\}\}",
    r"\[\[[^\[\]\n]{1,40}\]\]",
    r"\{%[^%\n]{1,60}%\}",
    r"<%[^%\n]{1,60}%>",
    r"\*\|[^|\n]{1,40}\|\*",
    r"[$#]\{[A-Za-z_][\w.]{0,40}\}",
    r"\{![\w.$]{1,60}\}",
    r"(?<![%\w])(?:%[A-Z][A-Z_]{2,30}%|%%[A-Za-z][A-Za-z_]{2,30}%%)",
    r"(?<![#\w])(##|__|@@)[A-Z][A-Z_]{2,30}\1",
    rf"(?xi)[\[［<＜«‹【{{]\s*(?:{FIELD})\s*[\]］>＞»›】}}]",
    rf"(?xi)[\[［<＜【](?:[^\[\]<>【】\n]{{0,30}}[\s:]|)(?:{NOTE})[^\[\]<>【】\n]{{0,40}}[\]］>＞】]",
    rf"(?xi)[(（][^()（）\n]{{0,30}}?(?:{HERE})[^()（）\n]{{0,30}}[)）]",
    rf"(?x){GREETING}\s?[^\n,:，：]{{0,20}}(?<![A-Za-z])(?:null|undefined|None|NaN|N/A)(?![A-Za-z])",
    r"(?i:\b(?:sr|sra|herr|frau|mr|mrs|ms|m|mme)\.?) (?:APELLIDOS?|NOMBRE|NAME|NACHNAME|SURNAME|LASTNAME|NOM)\b",
    r"\bPONER [A-ZÁÉÍÓÚÑ]{3,}|\b(?i:your name here|ihr name hier|votre nom ici|su nombre aquí)\b",
    r"\b(?:TODO|FIXME)\b\s?(?:[:(–—]|- )|\bPENDIENTE: ",
    r"(?:※|\b)要(?:確認|追記)\b|@\w{2,20}[:,：]? [^.。\n]{0,60}(?:ergänzen|nachtragen|fill in|compléter|completar"
    r"|补充|追記)",
    # Numbers, dates and lines that somebody left blank; those of a form are not followed by a word.
    r"(?<![\w-])[Xx]{2,3} ?(?:%|€|\$|£|EUR\b|USD\b|euros?\b|Euro\b)|[€$£] ?[Xx]{2,}(?![\w-])"
    r"|(?<![\w.-])XX(?:\.XX\b|\.? (?=(?:January|February|March|April|May|June|July|August|September|October|November"
    r"|December"
    r"|Januar|Februar|März|Mai|Juni|Juli|Oktober|Dezember|de [a-z]{4,10}|janvier|février|mars|avril|mai|juin|juillet"
    r"|août)\b))"
    r"|株式会社[XＸ○〇]{2,}|(?<![\w-])[Xx]{4,}(?![\w-]|[ -]?\d)",
    r"(?<!ormat )(?<!ormato )(?<![(/.\w])(?:TT|DD|JJ)([./-])MM\1(?:JJJJ|YYYY|AAAA|JJ|YY|AA)(?![)/.]?\w)",
    r"[^\W\d_][^\n_]{0,40}_{3,} ?[^\W\d_]|[^\W\d_] ?\.{6,} ?[,;]? ?[^\W\d_]|[为是] ?_{3,}",
    r"[●○〇◯XＸ×]{1,3}月[●○〇◯XＸ×]{1,3}日",
    r"(?<![○〇◯●])[○〇◯●]{2,9}\s?(?:様|さん|株式会社|円)|\b[XＸ]{2,}(?:先生|女士|经理|公司|元)|某某(?:先生|女士|公司)",
    r"(?i)\blorem ipsum\b",
    # The field of an office program that lost its source.
    r"(?i)click or tap (?:here )?to enter|klicken oder tippen sie hier|cliquez ou appuyez ici|haga clic o pulse aquí"
    r"|单击或点击此处输入|#(?:REF|NAME|VALUE|WERT|BEZUG|NOM|VALEUR)[!?]|error! (?:reference source|bookmark) not"
    r"|fehler! (?:verweisquelle|textmarke)|erreur ?! (?:source du renvoi|signet)"
    r"|error! no se encuentra el origen|错误[!！] ?未找到引用源|エラー[!！] ?参照元",
)
_PLACEHOLDER = tuple(re.compile(pattern) for pattern in PLACEHOLDERS)

MODEL = (
    r"(?:(?:large )?language model"
    r"|(?:large |virtual )?(?:ai|artificial intelligence)[- ](?:language )?(?:model|assistant)\b|virtual assistant"
    r"|ai(?= ?[,.;!)]| (?:and|so|i)\b))"
)
MODELL = (
    r"(?:(?:großes )?(?:ki[- ]?)?sprachmodell|(?:ki[- ]?|virtuelle[rn]? )(?:assistent(?:in)?|modell)|ki\b"
    r"|künstliche intelligenz)"
)
MODELE = r"(?:ia\b|intelligence artificielle|modèle de lang(?:age|ue)|assistant (?:virtuel|ia))"
MODELO = r"(?:modelo de lenguaje|asistente (?:virtual|de ia)|inteligencia artificial|ia\b)"
MAIL = (
    r"(?:e-?mails?|mails?|message|reply|response|draft|version|e-?mail|nachricht|antwort|entwurf|fassung|courriel"
    r"|réponse"
    r"|brouillon|proposition|correo|respuesta|borrador|mensaje|versión|邮件|回复|回信|草稿|版本|メール|文面|返信"
    r"|下書き|文案)"
)
ARTIFACTS = (
    # Its kind.
    rf"\b(?:as|being|i am|i'm|i’m) (?:just |only )?an? {MODEL}",
    rf"\b(?:als|ich bin|bin ich) (?:nur |lediglich )?(?:eine? )?{MODELL}\b",
    rf"\b(?:en tant qu(?:e |['’])|je suis |étant )(?:une? )?{MODELE}",
    rf"\b(?:como|soy|por ser|siendo) (?:una? )?{MODELO}",
    r"(?:作为|我是|我只是)(?:一个|一名|一款)?(?:ai|人工智能|大型?语言模型|语言模型|智能助手)",
    r"(?:ai|人工知能|大規模言語モデル|言語モデル)(?:アシスタント|モデル)?(?:として(?:、|は)|です(?:ので|から|。)"
    r"|のため[^。\n]{0,20}(?:できません|できない))",
    # Its training and its input.
    r"\b(?:as of )?my (?:last |latest )?(?:knowledge|training)(?: data)? (?:cut-?off|update|only|ends|does not"
    r"|doesn't)",
    r"\bmy (?:training data|context window|system prompt|guidelines (?:do not|don't))\b",
    r"\b(?:mein wissensstand|meine[rnm]? (?:trainingsdaten|kontextfenster|systemprompt))\b",
    r"\b(?:mes données d['’]entraînement|ma fenêtre de contexte|mes connaissances s['’]arrêtent|mes directives)\b",
    r"\b(?:mis datos de entrenamiento|mi ventana de contexto|mi última actualización de conocimientos?"
    r"|mis directrices)\b",
    r"截[至止](?:到)?我的(?:知识|训练)|我的(?:知识库?|训练数据?)(?:只|仅)?(?:更新到|截[至止])|(?:上下文"
    r"|训练数据)(?:窗口)?中(?:没有|未|找)|从上下文中",
    r"学習データ(?:に|は|が)|(?:私の)?知識は\d|コンテキスト(?:ウィンドウ)?に",
    r"\bin the (?:provided|supplied) (?:context|thread)\b|\bcontext provided\b",
    r"\bbereitgestellten? kontext\b|\bcontexte (?:fourni|donné)\b"
    r"|\bcontexto proporcionado\b",
    r"\b(?:documentos|datos|información) que se me ha[n]? proporcionado\b|(?:提供された|与えられた)情報の?中?に",
    r"\b(?:el|le|der|im|dem|del|du|your|the) prompt(?= ?[.,;:)!?]| (?:said|says|asked|asks)\b)",
    # Its thoughts.
    r"</?(?:think|thinking|reasoning|scratchpad|reflection|answer|tool_call|function_call)>",
    # People greet first: these words are a thought only before the greeting.
    r"\A[^\n]*\n\s*(?:the user (?:wants|asked|asks|is asking|would like)|der (?:nutzer|user|benutzer) (?:möchte|will"
    r"|bittet|wünscht)"
    r"|l['’]utilisat(?:eur|rice) (?:veut|souhaite|demande)|el usuario (?:quiere|pide|desea|solicita)|用户(?:希望|想"
    r"|要求|需要|让)|ユーザーは|(?:okay|ok|alright|hmm)\b|let me think|first,? i (?:need|should|will)"
    r"|ich (?:soll|muss) (?:also|zuerst)|d['’]abord,? je dois|primero,? (?:debo|tengo que)"
    r"|首先，?我(?:需要|应该|要)|まず[^。\n]{0,20}(?:必要がある|述べる|断る))"
    rf"[^\n]{{0,400}}\n\s{{1,4}}(?:{GREETING}|[^\n]{{1,20}}(?:様|先生|女士|您好|你好))",
    r"\b(?:tool|function|api|[a-z]+_[a-z_]+) (?:call |calls )?(?:returned|failed|call failed)\b|\btool call\b"
    r"|工具(?:调用|返回)|ツール(?:の)?呼び出し",
    r"システムプロンプト|系统提示词?|\bsystem ?prompt\b",
    r"\bmes (?:instructions|consignes),? je (?:ne|dois)\b|\bmy instructions,? i (?:must|can(?:no|['’])t|should|am)\b"
    r"|\bmeinen (?:anweisungen|vorgaben) (?:darf|soll)\b|\bmis instrucciones(?: del sistema)?,? (?:no )?(?:debo"
    r"|puedo)\b",
    r"\bbased (?:only )?on the information provided in (?:the|this) (?:conversation|thread|context)\b",
    # Its refusals.
    r"\bi (?:can(?:no|['’])t|am unable to|am not able to) (?:fulfil?l|comply with|assist with) (?:this|that"
    r"|your) request\b",
    r"\bi (?:can(?:no|['’])t|am unable to|am not able to) "
    r"(?:(?:help|assist)(?: you)? (?:with|in) (?:writing|drafting|creating|generating)|generate) "
    r"(?:an? |this |that |any )?(?:[\w-]+ ){0,3}(?:message|e-?mail|letter|text|content|reply|response)",
    r"\bich kann (?:ihnen |dir )?(?:dabei|hierbei|bei dieser anfrage|diese anfrage)[^.\n]{0,20} nicht (?:helfen"
    r"|erfüllen|unterstützen)",
    r"\bich kann (?:keine?n?|dies\w*) (?:[\wäöüß-]+ ){0,4}(?:verfassen|formulieren|generieren|erstellen, d)",
    r"\bje ne (?:peux|suis) pas (?:en mesure de )?(?:vous )?(?:rédiger|écrire|générer)\b",
    r"\bno puedo (?:ayudar(?:te|le)? (?:a|con la) )?(?:redactar|escribir|generar|redacción)",
    r"(?:不能|无法)(?:协助|帮助您?|为您)?(?:撰写|编写|生成|起草)",
    r"(?:文章|文面|内容|メール)(?:は|を)?(?:生成|作成)(?:することは|は)?(?:でき(?:ません|かねます)|お手伝いできません)",
    r"\bi (?:can(?:no|['’])t|am unable to|do not have the ability to) (?:access|browse) (?:the )?(?:internet|web"
    r"|real[- ]time|live)",
    r"\b(?:keinen zugriff auf das|nicht auf das) internet\b|\b(?:consulter|accéder à) internet en temps réel\b"
    r"|\b(?:puedo|posible) consultar internet\b",
    r"\bacceder a internet\b|(?:无法|不能)(?:访问互联网|联网|实时)|インターネットに(?:アクセス|接続)(?:でき|する)",
    # Its product.
    r"\bhere(?:'s|’s| is) (?:a|an|the|your) (?:\w+ ){0,3}(?:draft|version|rewrite) of "
    r"(?:the|your|an?) (?:e-?mail|message|reply)\b",
    r"\bhere(?:'s|’s| is) (?:a|an|the|your) (?:draft|revised|polished|rewritten|suggested) "
    r"(?:e-?mail|message|reply|response)\b",
    r"\bfeel free to (?:adjust|customi[sz]e|modify|tweak|edit) (?:this|the) (?:draft|e-?mail|message|reply|template)\b",
    r"\blet me know if you(?:'d|’d| would) like (?:me to "
    r"(?:adjust|change|revise|rewrite|shorten) |any changes to )(?:this|the|it)\b",
    r"\bhier ist (?:ein|der|dein|ihr) (?:überarbeitete[rn]? )?entwurf "
    r"(?:der|einer|deiner|ihrer|für (?:die|eine|deine|ihre)) (?:e-?mail|nachricht|antwort)\b",
    r"\bvoici (?:un|le|votre) (?:brouillon|projet) (?:d['’]e-?mail|de (?:courriel|réponse|message))",
    r"\baquí (?:tienes|está) (?:un|el|tu) borrador (?:de|del|para) (?:correo|la respuesta|respuesta|mensaje)",
    r"以下是(?:根据|按照|为您|为你|我为您)?[^。\n]{0,10}(?:起草|撰写|润色|修改|改写|优化)后?的?(?:邮件|回复|版本)",
    r"以下(?:が|は)(?:、)?[^。\n]{0,20}(?:メール|返信)の?(?:文案|文面|下書き|ドラフト)",
    r"\b(?:i (?:have )?|i['’]ve )generated (?:this|the|an?) |\bj['’]ai généré\b|\bhe generado (?:este|esta|el|la)\b"
    r"|\bhabe ich (?:\w+ ){0,4}generiert\b|为您生成了?|生成しました",
    # Its offers.
    r"\bwould you like me to (?:make|adjust|change|rewrite|rephrase|shorten|add|revise) |\bformuliere ich (?:die|den"
    r"|sie|ihn)\b",
    r"希望(?:这封|以上|该)(?:邮件|回复)符合|更(?:正式|简短|简洁|口语化)[^。\n]{0,10}版本|(?:簡潔|丁寧)な(?:文面"
    r"|表現)への(?:修正|変更)"
    r"|(?:短い|別の|くだけた)(?:バージョン|文体|文面)",
)
_ARTIFACT = tuple(re.compile(pattern, re.IGNORECASE) for pattern in ARTIFACTS)
# A model that was asked for a mail announces it in a line of its own, before the greeting.
_PREAMBLE = re.compile(
    rf"\A\s{{0,20}}+(?!{GREETING})[^\n]{{0,120}}{MAIL}[^\n]{{0,80}}"
    r"[:：。][ \t]{0,4}\n{1,4}[^\n]{1,60}[,:，：様、]?[ \t]*\n",
    re.IGNORECASE,
)
# After the farewell and the name it tells what it did, and offers another version.
_FAREWELL = re.compile(
    r"^(?:(?:kind|best|warm)?\s?regards|best(?: wishes)?|yours \w+|sincerely|with (?:kind|best) \w+|many thanks"
    r"|thanks|cheers"
    r"|gruß|mit (?:freundlichen|besten|herzlichen) \w+|(?:freundliche|viele|beste|herzliche|liebe) grüße"
    r"|(?:bien )?cordialement"
    r"|bien à vous|salutations\b.*|avec \w+ .{0,30}salutations|à (?:bientôt|très vite)|amicalement|très cordialement"
    r"|sportivement|un beso|cordialmente|(?:un |reciba un )?(?:cordial )?saludo"
    r"|un abrazo|atentamente|saludos(?: cordiales)?|此致|敬礼|祝好|祝?(?:商祺|工作顺利)|顺颂商祺"
    r"|(?:どうぞ)?よろしくお願い.*|敬具)"
    r"\s?[,.!，。！]?\s*$",
    re.IGNORECASE | re.MULTILINE,
)
_BY_A_PERSON = re.compile(r"\s{0,6}P\.?\s?S\b", re.IGNORECASE)
_NOTE_BEGINS = re.compile(
    r"\s{0,6}(?:N\.?\s?B\b|note\b|remarque\b|hinweis\b|nota\b|※|\*|-{3}|[(（\[])", re.IGNORECASE
)
_ABOUT_THE_TEXT = re.compile(
    r"\b(?:version|draft|fassung|entwurf|brouillon|versión|borrador|options?|tone|wording|tonfall|kürzer fassen|ton"
    r"|consignes?"
    r"|registre|tono|tuteo|registro|instrucciones|prompt|variante|más (?:breve|corto|formal)|plus (?:court|concis"
    r"|formel)e?)\b|版本|语气|字数|文面|敬語|別案|字以内|ご指定|文体",
    re.IGNORECASE,
)
# A model that was asked for a mail often answers with its headers too.
_OWN_HEADER = re.compile(
    r"\A\s*(?:\*\*)?(?:subject|betreff|objet|asunto|主题|件名)(?:\*\*)?\s?[:：–—]", re.IGNORECASE
)
SHOWN = 40


@check(
    translatable("Something is not filled in."),
    translatable("not filled in"),
    severity="risk",
    of_text=True,
)
def unfilled_placeholder(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if a place of a template was not filled in: `{{name}}`, `[Your name]`, `%NAME%`,
    `TODO:`, `○○様`.
    """
    written = _written(message, context)
    found = next((hit for each in _PLACEHOLDER if (hit := each.search(written))), None)
    if found is None:
        return None
    return translatable("It contains “%(place)s”.", place=found[0][:SHOWN])


@check(
    translatable("Words of the AI itself."),
    translatable("words of the AI"),
    severity="risk",
    of_text=True,
)
def model_artifact(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if it has words that a language model said to its user ("As an AI language model", "Here is a
    polished version of your email"), or a subject line at the beginning of the text.
    """
    words = begin_and_end(own_words(message, context))
    said = f"{message.request.subject}\n{words}"
    found = (
        next((hit for each in _ARTIFACT if (hit := each.search(said))), None)
        or _OWN_HEADER.search(words)
        or _PREAMBLE.search(words)
        or _find_postscript(words)
    )
    if found is None:
        return None
    return translatable(
        "“%(words)s” was said to you, not to the recipient.", words=found[0].strip()[:SHOWN]
    )


def _find_postscript(words: str) -> re.Match[str] | None:
    """Return the words about the mail itself that follow the farewell and the block of the name."""
    farewells = [found.end() for found in _FAREWELL.finditer(words)]
    name_ends = words.find("\n\n", farewells[-1] + 1) if farewells else -1
    last = words.rstrip().rfind("\n\n")
    if name_ends < 0 and last > 0 and _NOTE_BEGINS.match(words, last):
        name_ends = last
    if name_ends < 0 or _BY_A_PERSON.match(words, name_ends):
        return None
    return _ABOUT_THE_TEXT.search(words, name_ends)


def _written(message: OutgoingMessage, context: Context) -> str:
    return f"{message.request.subject}\n{begin_and_end(own_words(message, context))}"
