"""Steps on a page that a link cannot do: they press a button or change a form.

They find forms and fields by name, so that they work in every language.
"""

from playwright.sync_api import Page

from accounts.models import User
from approvals.gate import revise
from approvals.models import PendingAction

ROUNDS = 250  # of 20 ms
# A form as another site would send it; a page of an old tab has the same result.
UNSEALED = """() => { document.querySelector("[name=csrfmiddlewaretoken]").form.remove();
  const form = document.querySelector("main form"); form.querySelector("[name=csrfmiddlewaretoken]").value = "none";
  form.submit(); }"""


def pressed(page: Page, action: str) -> None:
    """Press the first button of the form that does this."""
    with page.expect_navigation():
        page.locator(f"form[data-action={action}] button").first.click()


def fill(page: Page, name: str, value: str) -> None:
    page.locator(f"main form:not([role=search]) [name={name}]").fill(value)


def framed(page: Page, review: str) -> None:
    """Show the message of the frame in a page that lets axe run."""
    page.set_content(page.context.request.get(f"{review}body/").text())


def make_token(page: Page) -> None:
    fill(page, "name", "desk")
    for box in page.get_by_role("checkbox").all():
        box.check()
    pressed(page, "create-token")


def add_webhook(page: Page) -> None:
    fill(page, "url", "http://192.0.2.7/hook")
    pressed(page, "create-webhook")


def refused_mail(page: Page) -> None:
    fill(page, "to", "mira@northwind.example, nobody")
    fill(page, "subject", "Refused")
    fill(page, "body", "Hello")
    pressed(page, "compose")


def invite(page: Page) -> None:
    fill(page, "email", "another@northwind.example")
    pressed(page, "invite")


def wrong_chat(page: Page) -> None:
    fill(page, "address", "gotify://")
    pressed(page, "add-chat")


def wrong_rules(page: Page) -> None:
    fill(page, "approvals_needed", "4")
    pressed(page, "rules")


def wrong_edit(page: Page) -> None:
    fill(page, "to", "nobody")
    pressed(page, "edit")


def stale(page: Page, bob: User) -> None:
    action = PendingAction.objects.get(pk=page.url.split("/")[-2])
    revise.edit(
        action_id=action.pk,
        person=bob,
        digest=action.digest,
        revision=action.revision,
        changes={"subject": f"Changed {action.revision} times"},
    )
    pressed(page, "approve")


def several(page: Page) -> None:
    for box in page.locator(".pick input").all():
        box.check()
    pressed(page, "bulk")


def several_approved(page: Page) -> None:
    if page.locator(".pick").count():
        with page.expect_response("**/presence/"):
            page.locator("#rows .what a").first.click()
        page.go_back()
        page.locator(".pick input").first.check()
        pressed(page, "bulk")
        pressed(page, "bulk-approve")


def approve(page: Page) -> None:
    """Approve as a person does: with scripts after the text was in view for a second, and a mail
    with a serious warning by a second step.
    """
    if page.evaluate("matchMedia('(scripting: enabled)').matches"):
        page.locator("body[data-seen]").wait_for()
    step = page.locator("details[data-key=a] > summary")
    if step.count():
        step.click()
    page.locator("form[data-action=approve] button").first.click()


def read(page: Page) -> None:
    """Let the second pass for which a text must be in view, in a page whose clock a test moves."""
    seen = page.locator("[data-presence][data-seen]")
    for _ in range(ROUNDS):
        page.clock.run_for(1100)
        if seen.count():
            return
        page.wait_for_timeout(20)  # the browser tells scripts of the view when it has drawn it
    raise AssertionError("The text was not in view.")
