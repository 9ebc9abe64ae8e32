"""The other names and words that models use for our parameters: one table, and nothing else.

A name is in snake case, as `arguments` folds it. It counts only for a tool that has the parameter and
that was not given it.
"""

from collections.abc import Mapping

from accounts.infra.texts import translatable

NAMES: Mapping[str, tuple[str, ...]] = {
    "from": ("sender", "from_email", "from_address"),
    "mailbox": (
        *("account", "account_name", "account_id", "mailbox_id", "mailboxes", "user", "user_id"),
        *("from", "from_email", "from_address", "sender"),  # of a tool that writes
    ),
    "to": (
        *("recipient", "recipients", "to_addresses", "to_address", "to_email", "to_emails"),
        *("recipient_email", "recipient_emails", "to_recipients", "forward_to"),
    ),
    "cc": ("cc_addresses", "cc_recipients", "cc_emails"),
    "bcc": ("bcc_addresses", "bcc_recipients", "bcc_emails"),
    "subject": ("title", "subject_line"),
    "comment": (
        *("body", "text", "content", "message", "body_text", "text_body", "note", "reply"),
        *("reply_text", "reply_body", "additional_message", "additional_text", "plain_text"),
    ),
    "body": (
        *("comment", "text", "content", "message", "body_text", "text_body", "reply"),
        *("reply_text", "reply_body", "plain_text"),
    ),
    "body_type": ("format", "content_type", "body_format", "mime_type", "is_html", "html"),
    "importance": ("priority",),
    "save_to_sent_items": ("save_to_sent", "save_copy"),
    "send_at": ("scheduled_time", "scheduled_at", "schedule_time", "scheduled_for", "send_time"),
    "reason": ("reasoning", "explanation"),
    "in_reply_to": ("reply_to_message_id", "reply_to_id"),
    "message_id": (
        *("id", "email_id", "mail_id", "uid", "email_ids", "message_ids", "message", "email"),
        *("in_reply_to", "reply_to_message_id", "reply_to_id"),
    ),
    "attachment_id": ("id", "attachment", "attachment_ids"),
    "thread_id": ("id", "conversation_id", "thread", "conversation"),
    "draft_id": ("id", "message_id", "email_id", "draft_ids", "draft", "message"),
    "action_id": ("id", "proposal_id", "action", "proposal", "action_ids"),
    "query": (
        *("q", "search", "search_query", "search_term", "search_text", "search_criteria"),
        *("criteria", "keyword", "keywords", "arg1", "input"),
    ),
    "since": ("after", "date_from", "start_date", "from_date", "date_after", "received_after"),
    "before": ("date_before", "received_before"),
    "newer_than_days": ("days", "last_days"),
    "unread": ("unread_only", "only_unread", "is_unread", "unseen", "seen", "is_read"),
    "has_attachments": ("has_attachment", "with_attachments"),
    "folder": (
        *("folder_name", "folder_id", "mail_folder_id", "mail_folder", "folders", "label"),
        *("labels", "label_ids"),
    ),
    "max_results": (
        *("limit", "count", "n", "top", "num_results", "page_size", "max", "number"),
        "max_emails",
    ),
    "limit": ("max_results", "count", "n", "top", "page_size"),
    "page_token": ("cursor", "next_page_token"),
    "cursor": ("page_token", "next_cursor"),
    "state": ("status",),
    "wait": ("timeout_seconds", "timeout", "wait_seconds", "seconds"),
    "as": ("format", "output"),
    "fmt": ("format",),
    # The members of an attachment
    "name": ("filename", "file_name"),
    "type": ("content_type", "mime_type", "mimetype", "media_type"),
    "content_base64": ("content", "data", "content_bytes", "base64"),
}
# Names that give the text as HTML, in place of text and its type.
PAGES = frozenset({"html", "html_body", "body_html", "html_content"})
INVERSE = frozenset({"seen", "is_read"})  # of what the parameter means
# Objects around the arguments.
WRAPPERS = frozenset(
    "input parameters arguments params args body email mail message draft updates changes"
    " filter filters search_criteria query options".split()
)
# Other words for a value, in lower case. None: the same as leaving the parameter out.
WORDS: Mapping[str, Mapping[str, object]] = {
    "body_type": {
        "text/html": "html",
        "text/plain": "text",
        "plain": "text",
        "md": "markdown",
        "text/markdown": "markdown",
        "true": "html",
        "false": "text",
    },
    "importance": {"urgent": "high", "highest": "high", "lowest": "low", "medium": "normal"},
    "mailbox": {"me": None, "all": None, "default": None},
    "state": {"all": None, "any": None},
}
# Values that ask for the usual behaviour, by name: with one of them an argument has no meaning.
ANYWAY: Mapping[str, frozenset[str]] = {
    "thought": frozenset(),  # of the model, with any words
    "thoughts": frozenset(),
    "reasoning": frozenset(),
    "explanation": frozenset(),
    "dummy": frozenset(),
    "random_string": frozenset(),
    "select": frozenset(),
    "poll_interval": frozenset(),
    "odata_type": frozenset(),
    "mime_type": frozenset({"multipart/alternative"}),  # as every mail with HTML
    "disposition": frozenset({"attachment"}),
    "encoding": frozenset({"base64"}),
    "sort_by": frozenset({"date", "received", "newest"}),
    "sort_order": frozenset({"desc", "descending"}),
    "order": frozenset({"desc", "descending", "newest"}),
    "orderby": frozenset({"receiveddatetime desc"}),
    "offset": frozenset({"0"}),
    "skip": frozenset({"0"}),
    "page": frozenset({"1"}),
    "include_attachments": frozenset({"true"}),
    "include_quote": frozenset({"true"}),
    "include_counts": frozenset({"true"}),
    "include_spam_trash": frozenset({"false"}),
    "include_hidden_folders": frozenset({"false"}),
    "mark_as_read": frozenset({"false"}),
}
# Names that models use for what we do not take, and what to do instead.
NOT_TAKEN: Mapping[str, str] = {
    "reply_to": "leave it out: answers come to the mailbox",
    "references": "leave it out: to answer in a thread use reply_email",
    "thread_id": "leave it out: message_id of a mail says which thread",
    "in_reply_to": "leave it out: to answer in a thread use reply_email",
    "filter": "leave it out: from, since, unread and has_attachments filter",
    "page": "leave it out: page_token goes on",
    "skip": "leave it out: page_token goes on",
    "offset": "leave it out: page_token goes on",
    "text": "leave it out: body has one form, and the text is made from HTML",
    "limit": "leave it out: all are listed",
    "top": "leave it out: all are listed",
    "attachment_name": "leave it out: list_attachments gives the id",
    "unless_answered": "leave it out: reply_email takes it, for a mail that answers another one",
    "send_at": "leave it out: send_draft takes it",
    "html_body": "leave it out, or give it as body with body_type html",
    "html": "leave it out, or give it as body with body_type html",
}
# The same for tools that answer or forward.
NOT_TAKEN_OF_ANSWERS: Mapping[str, str] = {
    "to": "did you mean cc? The answer goes to the sender",
    "to_recipients": "did you mean cc? The answer goes to the sender",
    "subject": "leave it out: it is that of the original",
}
# The answer to names of tools that other servers have, for things that mailhub does not do; and their words.
NOT_OFFERED_SAYS = translatable("mailhub does not move, mark, label or delete mails. A person can.")
NOT_OFFERED = frozenset(
    "archive delete flag label labels mark move purge remove snooze spam star tag trash unlabel"
    " unsubscribe unstar".split()
)
# The tools that give the values of a parameter.
GIVEN_BY: Mapping[str, str] = {
    "message_id": "list_emails",
    "attachment_id": "list_attachments",
    "draft_id": "list_drafts",
    "action_id": "list_actions",
    "thread_id": "list_emails",
    "folder": "list_folders",
}
