// A program with the official TypeScript SDK and nothing else: no token, no registration. It
// registers itself, lets a person sign in, proposes a mail and waits for its receipt. It writes one
// line of JSON for each step.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import http from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [address, subject] = process.argv.slice(2);
const OPEN = ["pending", "approved", "executing"];
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

const call = async (name, parameters) =>
  JSON.parse((await client.callTool({ name, arguments: parameters })).content[0].text);
const to = ["mira@northwind.example"];
let { action } = await call("send_email", { to, subject, body: "Hello Mira.", confirm: true });
say("proposed", action);
for (let tries = 0; tries < 240 && OPEN.includes(action.state); tries++) {
  await sleep(500);
  action = await call("get_action", { action_id: action.id });
}
say("receipt", action);
await client.close();
waiting.close();
