//! Reads of the whole database, of graphs and of subscriptions, each with the type of its answer.
//!
//! The query of a read has the parameters of its route in `docs/http.md`.

use quire_api::reply::{
    BlockCount, BlockReply, BlocksAnswer, BlocksReply, CompactionReply, ComponentsReply, Degree, DeliveredJob,
    DeliveredReply, GraphReply, Health, HistoryReply, ImportReply, MissingBlock, OneGraph, OrderReply, PathsReply,
    RefusedCommitReply, Stats, SubscriptionReply, VersionReply, WalkCount, WalkReply,
};
use quire_api::request::{FetchRequest, SubscriptionRequest};
use serde_json::json;

use crate::{Call, Client, ClientError, PageItems};

/// The whole database.
impl Client {
    /// Reads the contents in numbers, and counts since the database was opened.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn stats(&self) -> Result<Stats, ClientError> {
        self.get(&["stats"], &[])
    }

    /// Reads whether the database works.
    ///
    /// # Errors
    /// As [`Client::get`]; a database that has failed is an error.
    pub fn health(&self) -> Result<Health, ClientError> {
        self.read(Call::get_root("/healthz"))
    }

    /// Iterates over the last refused commits of the server, the newest first: at most 200. They
    /// have the reasons, and no data of the commits except names.
    ///
    /// ```no_run
    /// use quire_client::Client;
    ///
    /// let client = Client::builder("http://127.0.0.1:7070").build()?;
    /// for refused in client.refusals() {
    ///     let refused = refused?;
    ///     println!("{}: {}", refused.number, refused.problem.detail);
    /// }
    /// # Ok::<(), quire_client::ClientError>(())
    /// ```
    pub fn refusals(&self) -> PageItems<RefusedCommitReply<'static>> {
        self.list(&["refusals"], &[])
    }

    /// Reads figures of the last hour, one sample every 10 seconds: those after a time in
    /// milliseconds since 1970, or all after 0.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn history(&self, after_ms: u64) -> Result<HistoryReply, ClientError> {
        self.get(&["history"], &[("after", &after_ms.to_string())])
    }

    /// Deletes obsolete records now, and waits until it is done.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn compact(&self) -> Result<CompactionReply, ClientError> {
        self.read(Call::post(&["compact"]).patiently())
    }
}

/// Graphs.
impl Client {
    /// Iterates over the graphs.
    pub fn graphs(&self) -> PageItems<GraphReply> {
        self.list(&["graphs"], &[])
    }

    /// Reads the size and the history of a graph.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn graph(&self, graph: &str) -> Result<OneGraph, ClientError> {
        self.get(&["graphs", graph], &[])
    }

    /// Reads blocks by their names; `None` for each that does not exist.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn blocks(&self, graph: &str, names: &[&str]) -> Result<Vec<Option<BlockReply>>, ClientError> {
        let call = Call::post(&["graphs", graph, "get"]).json(&json!({ "blocks": names }))?.reading();
        match self.read::<BlocksReply<BlocksAnswer>>(call)?.found {
            BlocksAnswer::Blocks(blocks) => Ok(blocks),
            BlocksAnswer::Exists(_) => Err(ClientError::foreign(self.address(), "no blocks")),
        }
    }

    /// Counts blocks, by kind, tag and source.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn block_count(&self, graph: &str, query: &[(&str, &str)]) -> Result<BlockCount, ClientError> {
        self.read(Call::get(&["graphs", graph, "blocks"]).query("count", true).queries(query))
    }

    /// Iterates over the versions of a block, the newest first.
    pub fn versions(&self, graph: &str, block: &str) -> PageItems<VersionReply> {
        self.list(&["graphs", graph, "blocks", block, "versions"], &[])
    }

    /// Reads the number of edges of a block.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn degree(&self, graph: &str, block: &str, query: &[(&str, &str)]) -> Result<Degree, ClientError> {
        self.get(&["graphs", graph, "blocks", block, "degree"], query)
    }

    /// Iterates over the ends of edges without a block.
    pub fn missing_blocks(&self, graph: &str) -> PageItems<MissingBlock> {
        self.list(&["graphs", graph, "missing"], &[])
    }

    /// Walks from a block.
    ///
    /// # Errors
    /// As [`Client::get`].
    ///
    /// ```no_run
    /// use quire_client::Client;
    ///
    /// let client = Client::builder("http://127.0.0.1:7070").build()?;
    /// for visit in client.walk("shop", "ada", &[("depth", "3")])?.visits {
    ///     println!("{} {}", visit.depth, visit.name.unwrap_or(visit.id));
    /// }
    /// # Ok::<(), quire_client::ClientError>(())
    /// ```
    pub fn walk(&self, graph: &str, start: &str, query: &[(&str, &str)]) -> Result<WalkReply, ClientError> {
        self.read(Call::get(&["graphs", graph, "walk"]).query("start", start).queries(query))
    }

    /// Counts the blocks that a walk reaches.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn walk_count(&self, graph: &str, start: &str, query: &[(&str, &str)]) -> Result<WalkCount, ClientError> {
        let call = Call::get(&["graphs", graph, "walk"]).query("start", start).query("count", true);
        self.read(call.queries(query))
    }

    /// Reads a shortest path from one block to another; with `all=true`, all paths by their length.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn paths(&self, graph: &str, from: &str, to: &str, query: &[(&str, &str)]) -> Result<PathsReply, ClientError> {
        self.read(Call::get(&["graphs", graph, "paths"]).query("from", from).query("to", to).queries(query))
    }

    /// Orders all blocks of a graph, each after all blocks with an edge to it.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn order(&self, graph: &str, query: &[(&str, &str)]) -> Result<OrderReply, ClientError> {
        let call = Call::post(&["graphs", graph, "order"]).json(&json!({ "whole": true }))?.reading();
        self.read(call.queries(query))
    }

    /// Reads the strongly connected components of a graph.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn components(&self, graph: &str, query: &[(&str, &str)]) -> Result<ComponentsReply, ClientError> {
        let call = Call::post(&["graphs", graph, "components"]).json(&json!({ "whole": true }))?.reading();
        self.read(call.queries(query))
    }

    /// Imports a file of JSON lines into a graph, in one commit or not at all.
    ///
    /// # Errors
    /// As [`Client::get`]; the problem names the line that it is about.
    pub fn import_json_lines(&self, graph: &str, lines: impl Into<Vec<u8>>) -> Result<ImportReply, ClientError> {
        let call = Call::post(&["graphs", graph, "import"]).body("application/x-ndjson", lines);
        self.read(call)
    }
}

/// Named subscriptions.
impl Client {
    /// Iterates over the named subscriptions of a store.
    pub fn subscriptions(&self, store: &str) -> PageItems<SubscriptionReply> {
        self.list(&["events", store, "subscriptions"], &[])
    }

    /// Reads a named subscription and its progress.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn subscription(&self, store: &str, name: &str) -> Result<SubscriptionReply, ClientError> {
        self.get(&["events", store, "subscriptions", name], &[])
    }

    /// Creates or changes a named subscription.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn put_subscription(
        &self,
        store: &str,
        name: &str,
        subscription: &SubscriptionRequest<'_>,
    ) -> Result<SubscriptionReply, ClientError> {
        self.read(Call::post(&["events", store, "subscriptions", name]).json(subscription)?)
    }

    /// Deletes a named subscription. Its deliveries stay in its queue.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn delete_subscription(&self, store: &str, name: &str) -> Result<(), ClientError> {
        self.send(&Call::delete(&["events", store, "subscriptions", name])).map(drop)
    }

    /// Leases deliveries of a named subscription, with their events. Acknowledge them as jobs, for
    /// example by an `Ack` in a commit.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn fetch_deliveries(
        &self,
        store: &str,
        name: &str,
        fetch: &FetchRequest<'_>,
    ) -> Result<Vec<DeliveredJob<'static>>, ClientError> {
        let wait = std::time::Duration::from_millis(fetch.wait_ms);
        let call = Call::post(&["events", store, "subscriptions", name, "fetch"]).json(fetch)?.wait(wait);
        Ok(self.read::<DeliveredReply<'static>>(call)?.events)
    }
}
