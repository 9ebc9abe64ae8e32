"""The part of OData and KQL that the tests need, on the items of a mailbox.

A filter that Graph would call inefficient is refused.
"""

import copy
import re
from collections.abc import Sequence
from typing import Any

from tests.support.servers.graph_store import BadRequest, Item, file_row, moment

TOP_LIMIT = 1000
CLAUSE = re.compile(r"([\w/]+) (eq|ge|gt|le|lt) ('(?:[^']|'')*'|\S+)")
CONTAINS = re.compile(r"contains\((\w+),('(?:[^']|'')*')\)")
EXTENDED = re.compile(
    r"singleValueExtendedProperties/Any\(ep: ep/id eq ('(?:[^']|'')*') and ep/value eq ('(?:[^']|'')*')\)"
)
TERM = re.compile(r'(?:(\w+)(:|>=|<=|<|>))?("[^"]*"|[^\s()]+)')
EITHER = re.compile(r" and \(((?:[^()']|'(?:[^']|'')*')*)\)")
OR = re.compile(r" or (?=(?:[^']*'[^']*')*[^']*$)")
SEPARATOR = re.compile(r" and (?=(?:[^']*'[^']*')*[^']*$)")
COMPARE = {
    "eq": lambda a, b: a == b, "ge": lambda a, b: a >= b, "gt": lambda a, b: a > b,
    "le": lambda a, b: a <= b, "lt": lambda a, b: a < b,
    ">=": lambda a, b: a >= b, "<=": lambda a, b: a <= b, "<": lambda a, b: a < b, ">": lambda a, b: a > b,
}  # fmt: skip


def matching(items: Sequence[Item], query: dict[str, str]) -> list[Item]:
    """Return the items that match `$filter` or `$search`, in order. Raise BadRequest."""
    condition, search, order = (
        query.get("$filter", ""),
        query.get("$search", ""),
        query.get("$orderby", ""),
    )
    if search and (condition or order):
        raise BadRequest("SearchWithFilter")
    if order and condition and not condition.startswith(order.split()[0]):
        raise BadRequest("InefficientFilter")
    if not 1 <= int(query.get("$top", 10)) <= TOP_LIMIT:
        raise BadRequest("ErrorInvalidPageSize")
    found = [
        item for item in items if _holds(item, condition) and (not search or _found(item, search))
    ]
    newest_first = not order.endswith(" asc")
    return sorted(
        found, key=lambda item: moment(item.shown["receivedDateTime"]), reverse=newest_first
    )


def selected(item: Item, query: dict[str, str]) -> dict[str, Any]:
    """Return the item with only the fields that `$select` names."""
    fields = query.get("$select", "")
    shown = copy.deepcopy(item.shown)
    shown["receivedDateTime"] = (
        f"{moment(shown['receivedDateTime']):%Y-%m-%dT%H:%M:%SZ}"  # whole seconds, as in Graph
    )
    if fields:
        shown = {name: value for name, value in shown.items() if name in ("id", *fields.split(","))}
    if "singleValueExtendedProperties" in query.get("$expand", ""):
        shown["singleValueExtendedProperties"] = [
            {"id": id_, "value": value} for id_, value in item.extended.items()
        ]
    if "attachments" in query.get("$expand", ""):
        shown["attachments"] = [file_row(file) for file in item.files]
    return shown


def _holds(item: Item, condition: str) -> bool:
    if not EITHER.search(condition) and OR.search(condition):
        return any(_holds(item, part) for part in OR.split(condition))
    rest = condition
    for group in EITHER.finditer(condition):
        if not any(_holds(item, part) for part in OR.split(group[1])):
            return False
        rest = rest.replace(group[0], "")
    for marked in EXTENDED.finditer(condition):
        if item.extended.get(_string(marked[1])) != _string(marked[2]):
            return False
        rest = rest.replace(marked[0], "")
    for clause in filter(None, (part.strip() for part in SEPARATOR.split(rest))):
        contains, match = CONTAINS.fullmatch(clause), CLAUSE.fullmatch(clause)
        if contains:
            if _string(contains[2]).lower() not in str(item.shown.get(contains[1])).lower():
                return False
        elif match:
            value: Any = _string(match[3]) if match[3].startswith("'") else match[3]
            value = (
                {"true": True, "false": False}.get(value, value) if match[3][0] != "'" else value
            )
            mine: Any = item.shown
            for name in match[1].split("/"):
                mine = mine.get(name) if isinstance(mine, dict) else None
            if mine is None:
                return False
            if match[1].endswith("DateTime"):
                mine, value = moment(mine), moment(value)
            if not COMPARE[match[2]](mine, value):
                return False
        else:
            raise BadRequest("ErrorInvalidUrlQueryFilter")
    return True


def _found(item: Item, search: str) -> bool:
    if len(search) < 2 or search[0] != '"' or search[-1] != '"':
        raise BadRequest("BadRequest")
    kql = search[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    if kql.count('"') % 2 or re.search(r"[{}\[\]%^~\\]", re.sub(r'"[^"]*"', "", kql)):
        raise BadRequest("BadRequest")  # "Syntax error: character '{' is not valid at position 0"
    return any(
        all(_term(item, *term) for term in TERM.findall(part) if term[2] != "AND")
        for part in kql.split(" OR ")
    )


def _term(item: Item, name: str, compare: str, value: str) -> bool:
    words, shown = value.strip('"').lower(), item.shown
    match name:
        case "from":
            return words in str(shown.get("from")).lower()
        case "to":
            return words in str(shown.get("toRecipients")).lower()
        case "subject":
            return words in shown["subject"].lower()
        case "received":
            return bool(COMPARE[compare](shown["receivedDateTime"][:10], words))
        case "hasAttachments":
            return bool(shown["hasAttachments"]) is (words == "true")
    return words in f"{shown['subject']} {shown['body']['content']}".lower()


def _string(literal: str) -> str:
    return literal[1:-1].replace("''", "'")
