// The official TypeScript SDK with its tasks of 2025-11-25: it proposes, is told the task, waits, and
// gets the result. It writes one line of JSON for each step.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";

const [address, token] = process.argv.slice(2);
const say = (step, value) => console.log(JSON.stringify({ step, value }));
const client = new Client({ name: "desk", version: "1" });
await client.connect(
  new StreamableHTTPClientTransport(new URL(address), {
    requestInit: { headers: { Authorization: `Bearer ${token}` } },
  }),
);
say("capability", client.getServerCapabilities().tasks);
await client.listTools();
const mail = { to: "mira@northwind.example", subject: "Thursday", body: "Hello.", confirm: true };
const stream = client.experimental.tasks.callToolStream(
  { name: "send_email", arguments: mail },
  CallToolResultSchema,
);
for await (const message of stream) {
  if (message.type === "taskStatus") continue;
  say(message.type, message.task ?? message.result ?? message.error);
}
await client.close();
