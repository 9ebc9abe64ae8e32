from django.contrib.auth.views import LogoutView
from django.urls import path

from accounts.views import mailboxes, sign_in

urlpatterns = [
    path("sign-in/", sign_in.SignIn.as_view(), name="sign_in"),
    path("sign-in/<str:secret>/", sign_in.by_link, name="sign_in_by_link"),
    path("sign-out/", LogoutView.as_view(), name="sign_out"),
    path("mailboxes/", mailboxes.index, name="mailboxes"),
]
