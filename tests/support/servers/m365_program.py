#!/usr/bin/env python3
"""A fake of the program `m365`: records its arguments and answers as `answers.json` beside it says.

An answer `{"exit": text}` ends with an error; `{"server": …}` prints the process id of the MCP
server that called it, and `{"kill": …}` kills that server.
"""

import json
import os
import signal
import sys
from pathlib import Path

here = Path(sys.argv[0]).parent
with (here / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\n")
words = sys.argv[1:]
name = " ".join(
    words[: next((place for place, word in enumerate(words) if word.startswith("-")), len(words))]
)
answer = json.loads((here / "answers.json").read_text()).get(name, {"ran": name})
if isinstance(answer, dict) and "exit" in answer:
    sys.exit(f"Error: {answer['exit']}")
if isinstance(answer, dict) and ("kill" in answer or "server" in answer):
    tester = int((here / "tester.pid").read_text())
    process = os.getpid()
    while (
        parent := int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    ) != tester:
        process = parent
    if "kill" in answer:
        os.kill(process, signal.SIGKILL)
    answer = {"server": process}
sys.stdout.write(answer if isinstance(answer, str) else json.dumps(answer, indent=2))
