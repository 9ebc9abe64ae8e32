"""A fake of the npm MCP server of the CLI for Microsoft 365: the same tool, the same shell, no
Node.

The tests that use it also run, in the long suite, on `@pnp/cli-microsoft365-mcp-server` itself.
"""

import json
import re
import subprocess
import sys
import threading
from typing import Any

writing = threading.Lock()


def answer(request_id: Any, result: dict[str, Any]) -> None:
    with writing:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}) + "\n")
        sys.stdout.flush()


def call(request_id: Any, command: str) -> None:
    if re.search(r"[;&|`$<>\n\r]", command):
        text, failed = "Command contains disallowed shell metacharacters.", True
    else:
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        failed = done.returncode != 0
        text = (done.stderr if failed else done.stdout).strip()
    answer(request_id, {"content": [{"type": "text", "text": text}], "isError": failed})


for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            about = {"name": "stand-in", "version": "0"}
            version = message["params"]["protocolVersion"]
            answer(
                message["id"],
                {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about},
            )
        case "tools/list":
            schema = {
                "type": "object",
                "properties": {"command": {"type": "string"}},
                "required": ["command"],
            }
            answer(message["id"], {"tools": [{"name": "m365_run_command", "inputSchema": schema}]})
        case "tools/call":
            arguments = (message["id"], message["params"]["arguments"]["command"])
            threading.Thread(target=call, args=arguments, daemon=True).start()
        case "ping":
            answer(message["id"], {})
