"""The guarded CLI for Microsoft 365: reads pass, writes wait for a person, the rest is refused."""

from tools.m365.kind import RunCommand
from tools.m365.running import run_command

__all__ = ["RunCommand", "run_command"]
