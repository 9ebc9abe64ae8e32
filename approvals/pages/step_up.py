"""Step-up: a check before risky decisions that the person is really there."""

from django.http import HttpRequest, HttpResponse

from accounts.people.step_up import ask_again, is_fresh


def asked_again(request: HttpRequest) -> HttpResponse | None:
    """Return a page that asks for a new sign-in, or None if the last one is fresh enough.

    It leads back to the page above with the button, so the person decides again with the content in
    view.
    """
    if is_fresh(request):
        return None
    return ask_again(request, back=request.path.rstrip("/").rpartition("/")[0] + "/")
