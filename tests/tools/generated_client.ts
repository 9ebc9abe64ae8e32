/** A program on a client made from the OpenAPI document: it proposes, waits, and reads. */
import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

type Action = components["schemas"]["Action"];

const headers = { Authorization: `Bearer ${process.env.TOKEN}` };
const api = createClient<paths>({ baseUrl: process.env.URL, headers });
const deadline = Date.now() + 30_000;

async function propose(): Promise<Action> {
  const { data, error, response } = await api.POST("/api/v1/tools/send_email", {
    params: { header: { "Idempotency-Key": "one" } },
    body: {
      to: "mira@northwind.example",
      subject: "From a generated client",
      body: "Hello Mira.",
      metadata: { ticket: "4711" },
      confirm: true,
    },
  });
  if (error || response.status !== 202 || !("action" in data)) throw new Error(error?.detail);
  return data.action;
}

async function decided(action_id: string): Promise<Action> {
  while (Date.now() < deadline) {
    const { data } = await api.GET("/api/v1/actions/{action_id}", {
      params: { path: { action_id } },
    });
    if (data && data.state === "succeeded") return data;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("nobody decided");
}

async function main(): Promise<void> {
  const proposed = await propose();
  console.log(proposed.id);
  const sent = await decided(proposed.id);
  const listed = await api.GET("/api/v1/actions", {
    params: { query: { metadata: { ticket: "4711" }, limit: 1 } },
  });
  const emails = await api.POST("/api/v1/tools/list_emails", { body: { folder: "sent" } });
  const refused = await api.GET("/api/v1/mailboxes/{mailbox_id}", {
    params: { path: { mailbox_id: "none" } },
  });
  console.log(
    JSON.stringify({
      recipients: sent.receipt?.recipient_count,
      listed: listed.data?.items.map((action) => action.id),
      subjects: emails.data?.emails.map((card) => card.subject),
      refused: refused.error?.code,
    }),
  );
}

main();
