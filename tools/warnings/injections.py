"""The search for orders to a machine in foreign mail, in English, German and Chinese. Pure.

A match is a sign and no proof: text for people may look like an order, and an order may look like
other text.
"""

import re

# Work that people give each other instructions for. Money is not listed.
WORK = (
    "shipping|delivery|packing|packaging|assembly|installation|dos(?:age|ing)|travel|parking|dial-in|wiring|routing"
    "|loading|unloading|storage|cleaning|mounting|washing|booking|pick-?up|collection|printing|labell?ing|translation"
    "|design|layout|cooking|transport|customs|brand|style|formatting|submission|author|dress|catering|harvest"
    "|irrigation"
)
WORK_IN_GERMAN = (
    "Liefer|Verpack|Montage|Dosier|Anfahrt|Anreise|Installation|Reinigung|Verlad|Lager|Versand|Druck|Gestalt|Pflege"
    "|Bestell|Einwahl|Abhol|Übersetz|Wartung"
)
# Words after "AI" that make it the field of a person or a company.
PEOPLE = (
    "experts?|specialists?|engineers?|researchers?|compan(?:y|ies)|teams?|leads?|leaders?|enthusiasts?|start-?ups?"
    "|consultants?|scientists?|architects?|departments?|groups?|students?|lawyers?"
)
OTHERS = "developers?|officers?|managers?|vendors?|providers?|users?|owners?|operators?|suppliers?|governance|policy"
ORDERS = (
    # Orders to ignore earlier instructions.
    r"(?<!not )(?<!n['’]t )(?<!never )(?<!did you )\b(?:ignore|disregard|forget|override|bypass)\b"
    r"(?:(?!\b(?:my|our|his|her)\b)[^.\n]){0,40}"
    rf"\b(?:previous|prior|above|earlier|preceding|all|any|your|system)\b(?:(?!\b(?:my|our|his|her"
    rf"|{WORK})\b)[^.\n]){{0,30}}"
    r"\b(?:instructions?|(?<!security )(?<!pop-up )prompts?"
    r"(?! (?:from the (?:installer|setup|update|firewall|browser|app)|during|that appear|on (?:the|your) screen"
    r"|to (?:update|install|restart|upgrade|reboot))\b)|directives?|guidelines|programming|safety rules)\b"
    rf"(?! (?:for|on|about|regarding) (?:the )?(?:{WORK})\b)"
    r"(?! (?:from|of|by) (?:my|our|his|her|the (?:board|buyer|seller|carrier|court|doctor))\b)"
    r"(?! between (?:the|all) parties\b)",
    r"(?<!nicht )\b(?:ignorier(?:e|en sie|t)|vergiss|vergessen sie|missachte(?:n sie)?)\b"
    r"(?:(?!\b(?:nicht|mein\w*|unser\w*)\b)[^.\n]){0,40}"
    r"\b(?:vorherigen?|bisherigen?|obigen?|früheren?|vorangegangenen?|vorigen?|alle|deine)\b"
    r"(?:(?!\b(?:mein\w*|unser\w*)\b)[^.\n]){0,30}\b(?:anweisung(?:en)?|instruktion(?:en)?|prompts?|systemvorgaben)\b"
    rf"(?! (?:zur|zum|für die|für den|für das) (?:{WORK_IN_GERMAN})\w*)(?! nicht\b)",
    r"\b(?:vorherigen?|bisherigen?|obigen?|früheren?|vorangegangenen?)\s+(?:anweisungen|instruktionen|prompts)\b"
    rf"(?! (?:zur|zum|für die|für den|für das) (?:{WORK_IN_GERMAN})\w*)"
    r"(?:(?!\bnicht\b)[^.\n]){0,30}\b(?:ignorieren|vergessen|missachten|außer acht)\b",
    r"(?<!不要)(?<!别)(?<!勿)(?<!不)(?:忽略|无视|忘记|忘掉|忽視|無視|忘記)(?:(?!我|我们|我們)[^。\n]){0,12}"
    r"(?:之前|以前|先前|上面|上述|以上|前面|所有|你的)[^。\n我]{0,12}(?:指令|指示|提示词|提示詞|系统设定|系統設定)",
    # Claims that the reader is a machine.
    r"\byou are (?:now |from now on )?(?:an? |the |my )?(?:AI|LLM|large language model|language model|chatbot)\b"
    rf"(?![ -](?:{PEOPLE})\b)",
    r"\bdu bist (?:jetzt |nun |ab jetzt |ab sofort )?(?:eine?|der|die|mein) (?:KI|Sprachmodell|Chatbot)\b"
    r"(?!-(?:expert|spezialist|beauftragt|verantwortlich|manager|team|entwickl|profi|fach|berat|abteilung))",
    r"你(?:现在|現在)?是(?:一个|一個|一名|个)?(?:AI|人工智能|人工智慧|大?语言模型|大?語言模型|聊天机器人|聊天機器人)"
    r"(?!专家|專家|专业|專業|工程师|工程師|领域|部门|部門|公司|团队|團隊|研究|行业|方面|负责人|负责)",
    # Texts addressed to the machine.
    r"\b(?:attention|note to|instructions? (?:for|to)|message (?:for|to)|dear)[:,]?\s+(?:the |any |all )?"
    r"(?:LLMs?|language models?|AI (?:assistant|agent|model|system)s?|chatbots?|automated (?:assistants?|agents?))\b"
    rf"(?! (?:{PEOPLE}|{OTHERS}|projects?|under the"
    r"|must be (?:registered|documented|reported|approved)|are (?:on|in|available|part))\b)",
    r"\b(?:achtung|anweisung(?:en)? (?:für|an)|hinweis (?:für|an)|nachricht (?:für|an)|liebe)[:,]?\s+"
    r"(?:die |den |das |alle )?(?:KI-(?:Assistent|Agent|Modell|System)\w*|Sprachmodelle?|Chatbots?|KI\s*:)"
    r"(?! (?:sind|ist|dürfen|werden|wird)\b)",
    r"(?:致|给|給|(?<![申邀聘])请|(?<![申邀聘])請)(?:所有)?(?:AI|人工智能|人工智慧|智能)(?:助手|助理|代理)",
    # Orders to keep something from the user.
    r"\b(?:do not|don['’]t|never|without) (?:tell|telling|inform|informing|mention|mentioning|alert|alerting|notify)\b"
    r"[^.\n]{0,30}\b(?:the|your) (?:user|human|owner|operator)\b"
    r"(?! until\b)[^.\n]{0,20}\b(?:this|these|it)\b",
    r"\b(?:sag|sage|verrate|erzähle|teile|melde)\b[^.\n]{0,30}\b(?:dem|deinem|deiner) "
    r"(?:nutzer|benutzer|anwender|nutzerin)\b[^.\n]{0,30}\bnichts?\b",
    r"(?:不要|别|勿)(?:告诉|告知|告訴|通知)[^。\n]{0,6}(?:用户|使用者|用戶|主人)[^。\n]{0,12}(?:此|这|這|本)",
    # Orders to reveal the prompt or to use a tool.
    r"\b(?:reveal|print|repeat|show|output|leak|send)\b[^.\n]{0,30}"
    r"\b(?:(?:system|developer|hidden) (?:prompt|instructions)|initial prompt|your initial instructions)\b",
    r"\b(?:reveal|print|repeat|show|output|leak)\b[^.\n]{0,30}\binitial instructions\b",
    r"\b(?:zeige?|verrate|wiederhole|sende)\b[^.\n]{0,30}\b(?:system-?prompt|systemanweisung(?:en)?)\b",
    r"(?:显示|顯示|输出|輸出|告诉我|告訴我|重复|重複|泄露)[^。\n]{0,12}(?:系统提示|系統提示|提示词|提示詞)",
    r"\b(?:use|call|invoke|execute)\b[^.\n]{0,20}\b(?:send_email|forward_email|reply_email|send_draft|search_emails|"
    r"read_email|m365_run_command)\b",
    # The marks of a model's own conversation format.
    r"<\|(?:im_start|im_end|system|user|assistant|endoftext|eot_id)\|>|\[/?INST\]|<</?SYS>>|</?(?:system"
    r"|assistant)_?prompt>",
    # Only blanks of the same line, and possessive: a mail of empty lines would take quadratic time.
    r"(?m)^[^\S\n]*+(?:#{2,}+\s*+)?(?:system|assistant)\s*+(?:message|prompt)?\s*+:\s*+you (?:are|must|will|should)\b",
)
FINDER = re.compile(
    "|".join(f"(?:{order.removeprefix('(?m)')})" for order in ORDERS), re.IGNORECASE | re.MULTILINE
)
# Between letters, these hide a word from a pattern but not from a model.
BETWEEN = re.compile("[\u200b-\u200d\u2060\ufeff\u00ad]")


def has_injection(text: str) -> bool:
    return FINDER.search(BETWEEN.sub("", text)) is not None
