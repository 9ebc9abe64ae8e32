"""The chat's answers as HTML, and its steps in words."""

import nh3
from django import template
from django.utils.functional import Promise
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext_lazy as _
from markdown_it import MarkdownIt

register = template.Library()

# Without links and pictures: the address of a link stays readable text, and nothing is loaded.
_MARKDOWN = (
    MarkdownIt("commonmark", {"html": False, "breaks": True})
    .enable(["table", "strikethrough"])
    .disable(["image", "link", "autolink", "reference", "html_block", "html_inline"])
)
_TAGS = {
    *("p", "br", "strong", "em", "s", "code", "pre", "ul", "ol", "li", "blockquote", "hr"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
# A heading of an answer is no heading of the page.
_HEADINGS = {"heading_open": "<p><strong>", "heading_close": "</strong></p>\n"}
for _rule, _html in _HEADINGS.items():
    _MARKDOWN.renderer.rules[_rule] = lambda *_, html=_html: html  # type: ignore[attr-defined]

STEPS: dict[str, Promise] = {
    "list_mailboxes": _("Looked at the mailboxes"),
    "list_folders": _("Looked at the folders"),
    "list_emails": _("Listed mails"),
    "search_emails": _("Searched mail"),
    "read_email": _("Read a mail"),
    "read_thread": _("Read a conversation"),
    "list_attachments": _("Listed the files of a mail"),
    "download_attachment": _("Read a file"),
    "gmail_search_messages": _("Searched mail"),
    "gmail_get_message": _("Read a mail"),
    "create_draft": _("Wrote a draft"),
    "draft_reply": _("Wrote a draft"),
    "update_draft": _("Changed a draft"),
    "list_drafts": _("Listed the drafts"),
    "delete_draft": _("Deleted a draft"),
    "send_email": _("Proposed a mail"),
    "reply_email": _("Proposed an answer"),
    "forward_email": _("Proposed a forward"),
    "send_draft": _("Proposed a draft"),
    "get_action": _("Looked at a proposal"),
    "list_actions": _("Listed proposals"),
    "cancel_action": _("Withdrew a proposal"),
    "m365_run_command": _("Proposed a command"),
}


@register.filter
def markdown(text: str) -> SafeString:
    """Return the text of a model as HTML without links, pictures, scripts or attributes."""
    return mark_safe(nh3.clean(_MARKDOWN.render(text), tags=_TAGS, attributes={}))  # noqa: S308  # cleaned


@register.filter
def step(tool: str) -> str:
    """Return what a tool did; an unknown name is returned as it is."""
    return str(STEPS.get(tool, tool))
