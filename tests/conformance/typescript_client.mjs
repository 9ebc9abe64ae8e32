// A program with the official TypeScript SDK and nothing else: no token, no registration. It
// registers itself, lets a person sign in, proposes a mail, gets a task and waits for its receipt. It
// writes one line of JSON for each step.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import http from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { withOAuth } from "@modelcontextprotocol/sdk/client/middleware.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [address, subject] = process.argv.slice(2);
const say = (step, value) => console.log(JSON.stringify({ step, value }));

const waiting = http.createServer();
waiting.listen(0, "127.0.0.1");
await once(waiting, "listening");
const back = `http://127.0.0.1:${waiting.address().port}/callback`;
const state = randomUUID();
const answered = new Promise((resolve) => {
  waiting.on("request", (request, response) => {
    const url = new URL(request.url, back);
    response.end("You can close this page.");
    if (url.pathname === "/callback") resolve(url.searchParams);
  });
});

const kept = {};
const provider = {
  redirectUrl: back,
  clientMetadata: { client_name: "TypeScript desk", redirect_uris: [back] },
  state: () => state,
  clientInformation: () => kept.client,
  saveClientInformation: (client) => (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => (kept.tokens = tokens),
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (verifier) => (kept.verifier = verifier),
  redirectToAuthorization: (url) => say("sign in", url.href),
};

const transport = () =>
  new StreamableHTTPClientTransport(new URL(address), { authProvider: provider });
const client = new Client({ name: "desk", version: "1" });
const first = transport();
try {
  await client.connect(first);
} catch (error) {
  if (!(error instanceof UnauthorizedError)) throw error;
}
const answer = await answered;
if (answer.get("state") !== state) throw new Error("The answer belongs to another request.");
await first.finishAuth(answer.get("code"));
await client.connect(transport());
say("granted", kept.tokens.scope);

const { tools } = await client.listTools();
say("tools", tools.map((tool) => tool.name));

// The client of the SDK speaks 2025-11-25, which has no tasks. Its sign-in works for any request.
const signedIn = withOAuth(provider, address)(fetch);
const VERSION = "2026-07-28";
const _meta = {
  "io.modelcontextprotocol/protocolVersion": VERSION,
  "io.modelcontextprotocol/clientInfo": { name: "desk", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {
    extensions: { "io.modelcontextprotocol/tasks": {} },
  },
};
const ask = async (method, name, params) => {
  const response = await signedIn(address, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": VERSION,
      "Mcp-Method": method,
      "Mcp-Name": name,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } }),
  });
  return (await response.json()).result;
};
const mail = { to: ["mira@northwind.example"], subject, body: "Hello Mira.", confirm: true };
const { taskId, ...begun } = await ask("tools/call", "send_email", {
  name: "send_email",
  arguments: mail,
});
let task = begun;
say("task", task);
for (let tries = 0; tries < 240 && task.status === "working"; tries++) {
  await sleep(500);
  task = await ask("tasks/get", taskId, { taskId });
}
say("receipt", { status: task.status, action: JSON.parse(task.result.content[0].text) });
await client.close();
waiting.close();
