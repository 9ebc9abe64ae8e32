from allauth.account import views as library
from django.apps import apps
from django.urls import include, path, re_path

from accounts.views import (
    connect,
    consent,
    language,
    oauth,
    oauth_consent,
    programs,
    prove,
    security,
    sign_in,
    tokens,
)

SSO = {"login/": "openid_connect_login", "login/callback/": "openid_connect_callback"}

urlpatterns = [
    path("sign-in/", sign_in.SignIn.as_view(), name="sign_in"),
    path("sign-in/again/", sign_in.sign_in_again, name="sign_in_again"),
    path("sign-in/challenge/", sign_in.challenge_passkey, name="challenge_passkey"),
    # It brings an HTTP library.
    *(
        path(f"sign-in/sso/oidc/<str:provider_id>/{place}", sign_in.at_provider(name), name=name)
        for place, name in SSO.items()
        if apps.is_installed("allauth.socialaccount.providers.openid_connect")
    ),
    path(
        "sign-in/code/",
        sign_in.by_mail(library.request_login_code),
        name="account_request_login_code",
    ),
    path(
        "sign-in/code/confirm/",
        sign_in.by_mail(library.confirm_login_code),
        name="account_confirm_login_code",
    ),
    path("sign-in/<str:secret>/", sign_in.by_link, name="sign_in_by_link"),
    path("sign-out/", library.logout, name="sign_out"),
    path("account/", security.index, name="security"),
    path("account/language/", language.choose, name="choose_language"),
    path("account/sessions/<int:session_id>/end/", security.end_session, name="end_session"),
    path("account/sessions/end-others/", security.end_other_sessions, name="end_other_sessions"),
    path("mailboxes/connect/", connect.begin, name="connect"),
    path("mailboxes/connect/address/", prove.prove_address, name="prove_address"),
    path("mailboxes/connect/imap/", connect.by_imap, name="connect_imap"),
    path("mailboxes/connect/<str:provider>/", consent.begin, name="connect_oauth"),
    path("mailboxes/connect/<str:provider>/answer/", consent.answer, name="oauth_answer"),
    path(".well-known/oauth-authorization-server", oauth.server_metadata, name="oauth_server"),
    path(
        ".well-known/oauth-authorization-server/<path:path>",
        oauth.server_metadata,
        name="oauth_server_of",
    ),
    path(".well-known/oauth-protected-resource", oauth.resource_metadata, name="oauth_resource"),
    path(
        ".well-known/oauth-protected-resource/<path:path>",
        oauth.resource_metadata,
        name="oauth_resource_of",
    ),
    path("oauth/register", oauth.register, name="oauth_register"),
    path("oauth/authorize", oauth_consent.authorize, name="oauth_authorize"),
    path("oauth/token", oauth.token, name="oauth_token"),
    path("oauth/revoke", oauth.revoke, name="oauth_revoke"),
    path("oauth/device/code", oauth.device_code, name="oauth_device_code"),
    path("oauth/device", oauth_consent.device, name="oauth_device"),
    path("tokens/", tokens.index, name="tokens"),
    path("programs/connect/", programs.connect, name="connect_program"),
    path("programs/seen/", programs.seen, name="programs_seen"),
    path("tokens/new/", tokens.create, name="new_token"),
    path("tokens/requests/", tokens.requests, name="requests"),
    path("tokens/<uuid:token_id>/rotate/", tokens.rotate, name="rotate_token"),
    path("tokens/<uuid:token_id>/narrow/", tokens.narrow, name="narrow_token"),
    path("tokens/<uuid:token_id>/revoke/", tokens.revoke, name="revoke_token"),
    # The sign-in library looks for its own pages under these names.
    path("account/sign-in/", sign_in.SignIn.as_view(), name="account_login"),
    path("account/sign-out/", library.logout, name="account_logout"),
    path("account/closed/", library.account_inactive, name="account_inactive"),
    path("account/confirm/", library.reauthenticate, name="account_reauthenticate"),
    path("account/password/", library.password_change, name="account_change_password"),
    path("account/password/set/", library.password_set, name="account_set_password"),
    path(
        "account/password/reset/",
        sign_in.by_mail(library.password_reset),
        name="account_reset_password",
    ),
    path(
        "account/password/reset/asked/",
        library.password_reset_done,
        name="account_reset_password_done",
    ),
    re_path(
        r"^account/password/reset/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$",
        sign_in.by_mail(library.password_reset_from_key),
        name="account_reset_password_from_key",
    ),
    path(
        "account/password/reset/done/",
        library.password_reset_from_key_done,
        name="account_reset_password_from_key_done",
    ),
    # Before the library's own page of this name: there is one page for all factors.
    path("account/factors/", security.continue_after, name="mfa_index"),
    path("account/factors/", include("allauth.mfa.urls")),
    path("account/sign-on/", include("allauth.socialaccount.urls")),
]
