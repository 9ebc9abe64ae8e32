from tests.support.servers.m365 import m365, npm_server

__all__ = ["m365", "npm_server"]
