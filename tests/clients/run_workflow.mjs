// Checks a workflow with n8n's own package and the descriptions of its nodes, and runs it: n8n's
// package computes every parameter and condition; this file only makes the requests and waits.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { once } from "node:events";

const [modules, descriptions, file, hub, token] = process.argv.slice(2);
const n8n = createRequire(`${modules}/`)("n8n-workflow");
const described = JSON.parse(readFileSync(descriptions, "utf8"));
const given = JSON.parse(readFileSync(file, "utf8").replaceAll("https://mailhub.example", hub));

const typeOf = (node) =>
  described.find(
    (each) =>
      `n8n-nodes-base.${each.name}` === node.type &&
      [each.version].flat().includes(node.typeVersion),
  );
const shape = n8n.safeParseWorkflowStructure(given);
if (!shape.success) throw new Error(JSON.stringify(shape.issues));
for (const node of given.nodes) {
  const type = typeOf(node);
  if (!type) throw new Error(`${node.name}: no such node`);
  const issues = n8n.NodeHelpers.getNodeParametersIssues(type.properties, node, type);
  if (issues) throw new Error(`${node.name}: ${JSON.stringify(issues)}`);
  const names = new Set(type.properties.map((each) => each.name));
  const unknown = Object.keys(node.parameters).filter((each) => !names.has(each));
  if (unknown.length) throw new Error(`${node.name}: unknown parameters ${unknown}`);
}

const nodeTypes = {
  getByNameAndVersion: (name, version) => ({
    description: typeOf({ type: name, typeVersion: version }),
  }),
};
const workflow = new n8n.Workflow({ id: "1", active: true, nodeTypes, ...given });
n8n.Expression.setExpressionEngine("legacy");

const steps = [];
const server = createServer(async (request, response) => {
  let body = "";
  for await (const part of request) body += part;
  response.end();
  steps.push(JSON.parse(body));
  server.emit("step");
});
server.listen(0, "127.0.0.1");
await once(server, "listening");
const resumeUrl = `http://127.0.0.1:${server.address().port}/webhook-waiting/1`;

async function request(parameters) {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  for (const { name, value } of parameters.headerParameters?.parameters ?? []) headers[name] = value;
  const options = { method: parameters.method, headers, body: parameters.jsonBody };
  const answer = await fetch(parameters.url, options);
  const document = await answer.json();
  if (!answer.ok) throw new Error(JSON.stringify(document));
  return document;
}

const runs = {
  webhook: async (parameters, json) => json,
  httpRequest: request,
  wait: async () => {
    if (!steps.length) await once(server, "step");
    return { body: steps.shift() };
  },
  if: async (parameters, json) => json,
  noOp: async (parameters, json) => json,
};
const runData = {};
let name = "Mail to propose";
let json = { body: { to: "mira@northwind.example", subject: "Thursday", body: "Does it suit you?" } };
while (name) {
  const node = workflow.getNode(name);
  const filled = { ...workflow.nodes[name].parameters };
  const parameters = workflow.expression.getParameterValue(
    filled, { resultData: { runData } }, 0, 0, name, [{ json }], "trigger",
    { $execution: { id: "1", resumeUrl } },
  );
  json = await runs[node.type.replace("n8n-nodes-base.", "")](parameters, json);
  console.log(JSON.stringify({ node: name, json }));
  runData[name] = [{ data: { main: [[{ json }]] } }];
  const branch = node.type.endsWith(".if") && !n8n.executeFilter(parameters.conditions) ? 1 : 0;
  name = given.connections[name]?.main[branch]?.[0]?.node;
}
server.close();
