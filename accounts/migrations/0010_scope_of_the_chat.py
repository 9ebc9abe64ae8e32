from django.db import migrations

CHAT = "agent:chat"
# Until now, a token with any of these could use the chat.
CONTENT = {"mail:read", "mail:draft", "mail:propose", "m365:run"}


def keep_the_chat(apps, schema_editor):
    tokens = apps.get_model("accounts", "ApiToken").objects.using(schema_editor.connection.alias)
    for token in tokens.only("scopes").iterator():
        if CONTENT & set(token.scopes) and CHAT not in token.scopes:
            token.scopes = [*token.scopes, CHAT]
            token.save(update_fields=["scopes"])


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0009_language'),
    ]

    operations = [migrations.RunPython(keep_the_chat, migrations.RunPython.noop)]
