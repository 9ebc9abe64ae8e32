"""What stands before Django and MCP at both doors (ASGI and WSGI): nothing is read before the
caller is known and the size is accepted, and nobody may send so slowly that others have to wait.

`rules` says what each address takes, `admission` who may send it, `asgi` and `wsgi` read the body
within the limits.
"""
