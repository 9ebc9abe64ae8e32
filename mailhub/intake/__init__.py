"""The layer before Django and MCP in both applications (ASGI and WSGI). It reads no body before the
caller is known and the size is accepted, and no slow sender can make others wait.

`rules` has the limits of each address, `admission` decides about the sender, `asgi` and `wsgi` read
the body within the limits.
"""
