"""Pages on which a person adds a channel: this browser, or a chat or phone service."""

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from accounts.access.signed_in import AuthenticatedRequest, signed_in_action, signed_in_form
from accounts.people.devices import read_id
from approvals.outbound.notifications.channels.adding import add_chat, add_push
from approvals.outbound.notifications.channels.allow_list import LENGTH, SERVICES

BROWSERS = {
    "Edg": "Edge",
    "OPR": "Opera",
    "Firefox": "Firefox",
    "Chrome": "Chrome",
    "Safari": "Safari",
}
SYSTEMS = ("iPhone", "iPad", "Android", "Windows", "Mac OS", "Linux")


class ChatForm(forms.Form):
    """The address of a chat or phone service, as the service or Apprise writes it."""

    address = forms.CharField(
        label=gettext_lazy("Address"),
        max_length=LENGTH,
        help_text=gettext_lazy("It is stored encrypted, and never shown again."),
        widget=forms.TextInput(
            attrs={"autocomplete": "off", "spellcheck": "false", "inputmode": "url"}
        ),
    )
    label = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=100,
        required=False,
        help_text=gettext_lazy("By which you recognize it, such as #approvals."),
    )


@sensitive_post_parameters("endpoint", "p256dh", "auth")
@signed_in_action
def add_push_channel(request: AuthenticatedRequest) -> HttpResponse:
    """Add the browser of this request, whose script has filled in its subscription."""
    given = {name: request.POST.get(name, "") for name in ("endpoint", "p256dh", "auth", "key")}
    try:
        add_push(request.user, given, label=describe_browser(request), device=read_id(request))
    except ValueError as problem:
        messages.error(request, problem.args[0])
    else:
        messages.success(request, _("Notifications are on in this browser. Send a test."))
    return redirect("notifications")


@sensitive_post_parameters("address")
@signed_in_form
@sensitive_variables("form")
def add_chat_channel(request: AuthenticatedRequest) -> HttpResponse:
    """Show the form for a chat or phone service, and add one."""
    form = ChatForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        wanted = form.cleaned_data
        try:
            add_chat(request.user, wanted["address"], label=wanted["label"])
        except ValueError as problem:
            form.add_error("address", problem.args[0])
        else:
            messages.success(request, _("Channel added. Send a test."))
            return redirect("notifications")
    return render(request, "approvals/chat_channel_new.html", {"form": form, "services": SERVICES})


def describe_browser(request: HttpRequest) -> str:
    """Return the browser and the system that a request names, such as "Firefox, Android"."""
    agent = request.META.get("HTTP_USER_AGENT", "")
    browser = next((name for mark, name in BROWSERS.items() if mark in agent), "")
    system = next((name for name in SYSTEMS if name in agent), "")
    return ", ".join(part for part in (browser, system) if part)
