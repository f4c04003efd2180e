export * from "./commit.js";
export { ConnectionError, QuireError } from "./error.js";
export { Store, type Decision, type Projection, type ReadOptions, type StoredEvent, type SubscribeOptions } from "./events.js";
export { Graph, type Block, type EdgeOptions, type Neighbour, type Visit } from "./graphs.js";
export { Outcome, Queue, type Job, type JobContext, type WorkOptions } from "./jobs.js";
export type { Json, Value } from "./json.js";
export { Quire } from "./quire.js";
export { Topic, type TopicRecord } from "./topics.js";
export { path, type Options, type QueryValue } from "./transport.js";
