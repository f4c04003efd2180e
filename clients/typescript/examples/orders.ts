// Places an order, works it and mails it, each step once. Usage: node orders.js http://127.0.0.1:7070
import { append, enqueue, failIfMatches, Outcome, produce, Quire, QuireError } from "quire-client";

const quire = new Quire(process.argv[2] ?? "http://127.0.0.1:7070");

// Placing is one commit: an event under a condition, a job and a message.
const place = (order: number, customer: string) =>
  quire.commit([
    append("shop/orders", [{ type: "OrderPlaced", tags: [`order:${order}`], data: { customer } }], [
      failIfMatches({ types: ["OrderPlaced"], tags: [`order:${order}`] }),
    ]),
    enqueue("shop/charges", { order }),
    produce("orders", { order, customer }, { key: String(order) }),
  ]);

await place(17, "ann");
await place(17, "ann").catch((error: QuireError) => console.log(`the second attempt: ${error.message}`));

// The event and the acknowledgement of the job are one commit.
const cashier = new AbortController();
await quire.queue("shop/charges").work(async (job) => {
  cashier.abort(); // after this order
  const { order } = job.payload as { order: number };
  return Outcome.commit([append("shop/orders", [{ type: "OrderCharged", tags: [`order:${order}`] }])]);
}, { worker: "cashier-1", signal: cashier.signal });

// The mail's job and the offset of the group are one commit.
const orders = quire.topic("orders");
for await (const record of orders.records(0, { offset: await orders.committed("mailer", 0) })) {
  const { customer } = record.value as { customer: string };
  const offset = { group: "mailer", topic: "orders", partition: 0, offset: record.offset + 1 };
  await quire.commit([enqueue("mails", `Thank you, ${customer}`), { commit_offset: offset }]);
}
const mails = await quire.queue("mails").fetch({ worker: "smtp-1", count: 10 });
console.log(`mails: ${mails.length}, events: ${await quire.store("shop/orders").head()}`);
