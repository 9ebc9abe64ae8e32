"""One call on a mailbox at the Graph server, and the permissions that it needs."""

import base64
import re
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, urlsplit

from tests.support.servers.graph_data import SENDING, Refusal
from tests.support.servers.graph_query import matching, selected
from tests.support.servers.graph_store import Item, file_row
from tools.mail.html.clean import text_of

if TYPE_CHECKING:
    from tests.support.servers.graph import GraphServer


class Call:
    """One call on a mailbox."""

    ACTIONS: ClassVar[dict[str, str]] = {
        "createReply": "reply",
        "createReplyAll": "replyAll",
        "createForward": "forward",
    }

    def __init__(
        self,
        graph: "GraphServer",
        address: str,
        query: dict[str, str],
        body: Any,
        address_line: str,
        prefer: str,
    ) -> None:
        self.graph, self.address, self.query, self.body = graph, address, query, body or {}
        self._line, self.prefer = address_line, prefer

    def done(self, method: str, parts: list[str]) -> tuple[int, Any]:
        match method, parts:
            case "GET", [""]:
                return 200, {
                    "mail": self.address,
                    "userPrincipalName": self.graph.aliases.get(self.address, self.address),
                }
            case "GET", ["mailFolders"]:
                return 200, self._paged(self.graph.store.folders(self.address))
            case "GET", ["mailFolders", folder]:
                return 200, self.graph.store.folder(self.address, self._folder(folder))
            case "GET", ["mailFolders", folder, "childFolders"]:
                return 200, self._paged(
                    self.graph.store.folders(self.address, inside=self._folder(folder))
                )
            case "GET", ["mailFolders", folder, "messages"]:
                return 200, self._list(
                    self.graph.store.in_folder(self.address, self._folder(folder))
                )
            case "GET", ["messages"]:
                return 200, self._list(list(self.graph.store.of(self.address).values()))
            case "POST", ["messages"]:
                item = self.graph.store.new(self.address, "drafts", self.body)
                self.graph.tamper(item)
                return 201, item.shown
            case "POST", ["sendMail"]:
                if isinstance(self.body, bytes):
                    item = self.graph.store.receive(self.address, self.body)
                else:
                    item = self.graph.store.new(self.address, "outbox", self.body["message"])
                save = isinstance(self.body, bytes) or self.body.get("saveToSentItems", True)
                return self._leaves(item, "sendMail", save=save)
            case _, ["mailFolders", folder, "messages", message, *rest]:
                item = self._item(message)
                if item.folder != self._folder(folder):
                    raise Refusal(404, "ErrorItemNotFound")
                return self._on_message(method, item, rest)
            case _, ["messages", message, *rest]:
                return self._on_message(method, self._item(message), rest)
        raise Refusal(404, "ResourceNotFound")

    def _on_message(self, method: str, item: Item, rest: list[str]) -> tuple[int, Any]:
        store = self.graph.store
        match method, rest:
            case "GET", []:
                self.graph.on_read(item)
                return 200, self._shown(self._selected(item))
            case "GET", ["$value"]:
                return 200, item.mime(bcc=self.graph.mime_bcc)
            case "PATCH", []:
                store.patch(item, self.body)
                self.graph.tamper(item)
                return 200, item.shown
            case "DELETE", []:
                if item.folder == "deleteditems":
                    store.purged[item.id] = store.of(self.address).pop(item.id)
                else:
                    store.move(self.address, item, "deleteditems")
                return 204, None
            case "POST", ["permanentDelete"]:
                # Into the purges folder, which no client can reach: its id finds nothing any more.
                # https://learn.microsoft.com/en-us/graph/api/message-permanentdelete
                if not self.graph.destroys:
                    # this call exists only in the global cloud
                    raise Refusal(404, "ResourceNotFound")
                store.purged[item.id] = store.of(self.address).pop(item.id)
                return 204, None
            case "POST", ["createReply" | "createReplyAll" | "createForward" as action]:
                draft = self._derived(item, self.ACTIONS[action], "drafts")
                return 201, draft.shown
            case "POST", ["send"]:
                if not item.shown["isDraft"]:
                    raise Refusal(400, "ErrorInvalidOperation")
                return self._leaves(item, "send", save=True)
            case "GET", ["attachments"]:
                return 200, self._paged([file_row(file) for file in item.files])
            case "POST", ["attachments"]:
                row = file_row(store.attach(item, self.body))
                self.graph.on_attach(item)
                return 201, row
            case "POST", ["attachments", "createUploadSession"]:
                path = f"/upload/{len(self.graph._uploads)}"
                given = {
                    name: value
                    for name, value in self.body["AttachmentItem"].items()
                    if name != "attachmentType"
                }
                self.graph._uploads[path] = (item, given, bytearray())
                return 201, {"uploadUrl": f"http://127.0.0.1:{self.graph.port}{path}"}
            case _, ["attachments", attachment, *more]:
                return self._on_file(method, item, attachment, more)
        raise Refusal(405, "ErrorInvalidRequest")

    def _on_file(
        self, method: str, item: Item, attachment: str, more: list[str]
    ) -> tuple[int, Any]:
        file = next((each for each in item.files if each["id"] == attachment), None)
        if file is None:
            raise Refusal(404, "ErrorItemNotFound")
        match method, more:
            case "GET", []:
                return 200, file
            case "GET", ["$value"]:
                return 200, base64.b64decode(file["contentBytes"])
            case "DELETE", []:
                item.files.remove(file)
                item.changed()
                return 204, None
        raise Refusal(405, "ErrorInvalidRequest")

    def _shown(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return its body as `Prefer` asks for it.

        The page of `get message` says that it is HTML otherwise. Without `shows_html` this server
        returns the stored type.
        """
        body = row.get("body")
        if body and body["contentType"] == "html" and 'body-content-type="text"' in self.prefer:
            row["body"] = {"contentType": "text", "content": text_of(body["content"])}
        elif (
            body
            and body["contentType"] == "text"
            and self.graph.shows_html
            and "body-content" not in self.prefer
        ):
            linked = re.sub(
                r"https?://\S+", r'<a href="\g<0>">\g<0></a>', escape(body["content"], quote=False)
            )
            lines = linked.replace("\n", "<br>\r\n")
            row["body"] = {
                "contentType": "html",
                "content": f"<html><head></head><body>{lines}</body></html>",
            }
        return row

    def _list(self, items: list[Item]) -> dict[str, Any]:
        if self.graph.index_lags and "$filter" in self.query and "eq" in self.query["$filter"]:
            items = []
        if not self.graph.ignores_filters:
            items = matching(items, self.query)
        return self._paged([self._selected(item) for item in items])

    def _selected(self, item: Item) -> dict[str, Any]:
        row = selected(item, self.query)
        if len(row.get("attachments", [])) > self.graph.most_per_page:
            row["attachments"] = row["attachments"][: self.graph.most_per_page]
            row["attachments@odata.nextLink"] = self._link({})
        return row

    def _paged(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Return one page; more follow as long as there is a nextLink, however few rows a page
        has.
        """
        top = min(int(self.query.get("$top", 10)), self.graph.most_per_page)
        skip, empty = int(self.query.get("$skip", 0)), int(self.query.get("$skiptoken", 0))
        if empty < self.graph.empty_pages:
            return {"value": [], "@odata.nextLink": self._link({"$skiptoken": str(empty + 1)})}
        page: dict[str, Any] = {"value": rows[skip : skip + top]}
        if len(rows) > skip + top:
            page["@odata.nextLink"] = self._link({"$skip": str(skip + top)})
        return page

    def _link(self, more: dict[str, str]) -> str:
        query = "&".join(f"{name}={quote(value)}" for name, value in {**self.query, **more}.items())
        return f"http://127.0.0.1:{self.graph.port}{self.graph.spell_link(urlsplit(self._line).path)}?{query}"

    def _derived(self, original: Item, action: str, folder: str) -> Item:
        """Return a reply or a forward as Exchange writes it: its own subject, its own quote."""
        shown, message = original.shown, self.body.get("message") or {}
        comment = self.body.get("comment", "")
        prefix = "FW" if action == "forward" else "RE"
        quote_ = f"________________\r\nFrom: {shown['from']}\r\n\r\n{shown['body']['content']}"
        kind = shown["body"]["contentType"]
        given = {
            "subject": f"{prefix}: {shown['subject']}",
            "body": {
                "contentType": kind,
                "content": f"{comment}\r\n{quote_}",
            },  # the comment is inserted unchanged
            "toRecipients": self.body.get("toRecipients") or message.get("toRecipients") or [],
            **({"conversationId": shown["conversationId"]} if action != "forward" else {}),
            **{name: value for name, value in message.items() if name != "toRecipients"},
        }
        if action != "forward":
            sender = shown["replyTo"] or [shown["from"]]
            others = (
                [*shown["toRecipients"], *shown["ccRecipients"]] if action == "replyAll" else []
            )
            others = [
                each for each in others if each["emailAddress"]["address"].lower() != self.address
            ]
            given |= {"toRecipients": sender, "ccRecipients": others}
        known = (*original.references, shown["internetMessageId"]) if action != "forward" else ()
        item = self.graph.store.new(
            self.address, folder, given, references=tuple(filter(None, known))
        )
        if action == "forward":
            for file in original.files:
                self.graph.store.attach(
                    item, {name: value for name, value in file.items() if name != "id"}
                )
        self.graph.tamper(item)
        return item

    def _leaves(self, item: Item, endpoint: str, *, save: bool) -> tuple[int, Any]:
        if not item.recipients() or self.graph.refuses_recipients & set(item.recipients()):
            raise Refusal(400, "ErrorInvalidRecipients")
        self.graph.accept(self.address, item, endpoint, save=save)
        return 202, None

    def _item(self, message: str) -> Item:
        item = self.graph.store.of(self.address).get(message)
        if item is None:
            raise Refusal(404, "ErrorItemNotFound")
        return item

    def _folder(self, named: str) -> str:
        try:
            return self.graph.store.known_folder(self.address, named)
        except KeyError:
            raise Refusal(404, "ErrorFolderNotFound") from None


def needed_scopes(method: str, action: str, rest: str) -> tuple[str, ...]:
    if action in SENDING:
        return ("Mail.Send",)
    if rest == "/":
        return ("User.Read",)
    return ("Mail.Read", "Mail.ReadWrite") if method == "GET" else ("Mail.ReadWrite",)
