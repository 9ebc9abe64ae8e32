"""The layer before Django and MCP. It reads no body before the caller is known and the size is
accepted, and no slow sender can make others wait.

`rules` has the limits of each address, `admission` decides about the sender, `bodies` reads the
body within the limits.
"""
