"""Packages of the npm registry that the tests run: installed into a temporary folder, with Node 22."""

import shutil
import subprocess
from pathlib import Path

# docs/use/mcp.md and docs/use/oauth.md name these versions.
NODE = "node@22.23.3"
CONFORMANCE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
SDK = "@modelcontextprotocol/sdk@1.32.2"
REMOTE = "mcp-remote@0.15.1"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
INSTALL_SECONDS = 300


def install(folder: Path, *packages: str) -> Path:
    """Install packages into a folder, and return its `node_modules`."""
    npm = shutil.which("npm")
    assert npm, "npm is not installed (bin/system-packages)"
    options = ["--no-audit", "--no-fund", "--no-save", "--prefix", str(folder)]
    done = subprocess.run(
        [npm, "install", *options, NODE, *packages],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return folder / "node_modules"
