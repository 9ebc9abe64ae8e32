"""Whether the person is really there: asked before what is risky."""

from django.http import HttpRequest, HttpResponse

from accounts.people.step_up import ask_again, is_fresh


def asked_again(request: HttpRequest) -> HttpResponse | None:
    """The answer to give instead, when a sign-in is not fresh enough; None to go on.

    It leads back to the page above, where the button is: what is decided is pressed anew, with it
    in view.
    """
    if is_fresh(request):
        return None
    return ask_again(request, back=request.path.rstrip("/").rpartition("/")[0] + "/")
