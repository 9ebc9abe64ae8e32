"""The chat's answers as HTML: the safe part of Markdown, and nothing that runs, loads or leads away."""

import re

import pytest

from mailhub.agent.templatetags.talk import markdown
from tools.catalog.entries import TOOLS


def test_markdown_is_shown_as_it_is_meant() -> None:
    shown = markdown("## Plan\n**Thursday** and `nine`\n\n- one\n- two\n\n| a |\n| --- |\n| 1 |")
    for html in (
        "<p><strong>Plan</strong></p>",
        "<strong>Thursday</strong>",
        "<code>nine</code>",
        "<li>two</li>",
        "<td>1</td>",
    ):
        assert html in shown


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<b onclick=alert(1)>b</b>",
        "[a](javascript:alert(1))",
        "![a](https://x.example/p.png)",
        "<https://x.example>",
        "[a]\n\n[a]: https://x.example",
        "```<script>\nalert(1)\n```",
        "| <a href=//x.example>a</a> |\n| --- |\n| <svg onload=alert(1)> |",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
    ],
)
def test_nothing_runs_loads_or_leads_away(text: str) -> None:
    tags = re.findall(r"<[^>]*>", markdown(text))
    assert all(re.fullmatch(r"</?[a-z]+>", tag) for tag in tags), tags
    names = {tag.strip("</>") for tag in tags}
    assert names <= {"p", "pre", "code", "br", "table", "thead", "tbody", "tr", "th", "td"}


def test_every_tool_has_a_step_in_words() -> None:
    assert all(tool.done for tool in TOOLS.values())
