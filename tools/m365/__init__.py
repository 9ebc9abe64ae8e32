"""The guarded CLI for Microsoft 365: reads run, writes wait for an approval, all else is
refused.
"""

from tools.m365.kind import RunCommand
from tools.m365.running import run_command

__all__ = ["RunCommand", "run_command"]
