// kafkajs against a server that runs already: node clients.js BOOTSTRAP
//
// Each check is a function; the first that does not hold ends the run with status 1.

const { Kafka, logLevel } = require("kafkajs");

const [, , bootstrap] = process.argv;
const kafka = new Kafka({ clientId: "quire-tests", brokers: [bootstrap], logLevel: logLevel.NOTHING });

// Generous: it bounds how long a broken server can hang the run.
setTimeout(() => fail("nothing in time"), 120_000).unref();

function fail(found) {
  console.error("found", found);
  process.exit(1);
}

/** Reads until `count` messages have come, and returns their values in order. */
async function read(groupId, topic, count) {
  const consumer = kafka.consumer({ groupId });
  const values = [];
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    consumer.run({
      eachMessage: async ({ message }) => {
        values.push(message.value.toString());
        if (values.length === count) resolve();
      },
    });
  });
  await consumer.disconnect();
  return values;
}

/** Offsets are reset to the latest and to the earliest message, and the group begins again. */
async function resetsOffsets() {
  const [topic, groupId] = ["kafkajs-reset", "kafkajs-reset-readers"];
  const [admin, producer] = [kafka.admin(), kafka.producer()];
  await admin.connect();
  await producer.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }] });
  const send = (values) => producer.send({ topic, messages: values.map((value) => ({ value })) });
  await send(["a", "b", "c"]);
  const first = await read(groupId, topic, 3);
  const committed = async () => (await admin.fetchOffsets({ groupId, topics: [topic] }))[0].partitions[0].offset;
  await admin.resetOffsets({ groupId, topic });
  const latest = await committed();
  await admin.resetOffsets({ groupId, topic, earliest: true });
  const earliest = await committed();
  const again = await read(groupId, topic, 3);
  const found = JSON.stringify([first, latest, earliest, again]);
  if (found !== '[["a","b","c"],"-1","-2",["a","b","c"]]') fail(found);
  await producer.disconnect();
  await admin.disconnect();
}

resetsOffsets().then(() => {
  console.log("ok      kafkajs resets offsets to the latest and to the earliest message");
  process.exit(0);
}, fail);
