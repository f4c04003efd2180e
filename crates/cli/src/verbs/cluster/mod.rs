//! `quire cluster`: the members of a cluster, and changes of them.

use std::io::Write;

use clap::{Args, Subcommand};

use self::recover::RecoverNode;
use self::replace::ReplaceMember;
use super::client::{HttpClient, Path};
use super::key_file::KeyFile;
use super::print::{OutputForm, list, word};
use crate::failure::Result;
use crate::server_address::ServerAddress;
use crate::text::grouped;

mod recover;
mod replace;

/// Commands of `quire cluster`.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterVerb {
    /// Show the members with their roles, positions and lag
    Status(ClusterServer),
    /// Remove a member; no node ever gets its number again
    Remove(RemoveMember),
    /// Wait until a new node is a voter, then remove the member whose place it takes
    Replace(ReplaceMember),
    /// Hand the office of the leader over to another voter
    Transfer(TransferOffice),
    /// Make one stopped node a cluster alone, when the majority is lost for good
    Recover(RecoverNode),
}

/// A node of the cluster.
#[derive(Debug, Args)]
pub(crate) struct ClusterServer {
    /// Address of a node, like http://127.0.0.1:7070
    #[arg(long, value_name = "URL")]
    http: ServerAddress,
    #[command(flatten)]
    key: KeyFile,
    #[command(flatten)]
    form: OutputForm,
}

/// Arguments of `quire cluster remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveMember {
    /// Number of the member
    node: u64,
    #[command(flatten)]
    server: ClusterServer,
}

/// Arguments of `quire cluster transfer`.
#[derive(Debug, Args)]
pub(crate) struct TransferOffice {
    /// Number of the new leader [default: the voter that has the most records]
    node: Option<u64>,
    #[command(flatten)]
    server: ClusterServer,
}

impl ClusterVerb {
    /// Carries out the command, and prints the result.
    ///
    /// # Errors
    /// When the node can't be reached, or refuses.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        match self {
            ClusterVerb::Status(server) => server.status(out),
            ClusterVerb::Remove(RemoveMember { node, server }) => {
                let path = Path::new(&["cluster", "remove"]).with("node", node);
                server.change(out, &path, &format!("node {node} is removed"))
            }
            ClusterVerb::Replace(replace) => replace.run(out),
            ClusterVerb::Recover(recover) => recover.run(out),
            ClusterVerb::Transfer(TransferOffice { node, server }) => {
                let path = Path::new(&["cluster", "transfer"]);
                let path = node.into_iter().fold(path, |path, node| path.with("node", node));
                server.change(out, &path, "the leader hands its office over")
            }
        }
    }
}

impl ClusterServer {
    fn status(self, out: &mut dyn Write) -> Result {
        let client = HttpClient::with_key(&self.http, &self.key)?;
        let status = client.get(&Path::new(&["cluster"]))?;
        if self.form.is_json() {
            return self.form.print(out, std::slice::from_ref(&status), |_| String::new());
        }
        let number = |value: &serde_json::Value, name: &str| value[name].as_u64().map_or("-".to_owned(), grouped);
        writeln!(
            out,
            "node {} is {} in term {}: appended {}, published {}",
            number(&status, "node"),
            word(&status, "role"),
            number(&status, "term"),
            number(&status, "appended"),
            number(&status, "published")
        )?;
        // A node without a leader may be unable to say more.
        if client.get(&Path::root("/healthz")).is_ok_and(|health| health["status"] == "damaged") {
            writeln!(out, "its log has damage: it does not lead while another voter can")?;
        }
        let leader = status["leader"].as_u64();
        // The nodes of a cluster have TLS alike.
        let scheme = if self.http.as_str().starts_with("https://") { "https" } else { "http" };
        self.form.print(out, list(&status, "members"), |member| {
            let is_leader = leader.is_some() && member["node"].as_u64() == leader;
            let role = if is_leader { "leader".to_owned() } else { word(member, "role") };
            let connected = if member["connected"] == true { "connected" } else { "not connected" };
            let lag = match member["lag"].as_u64() {
                Some(lag) => format!(", lacks {}", grouped(lag)),
                None => String::new(),
            };
            format!("{:>3}  {role:8} {connected}{lag}  {scheme}://{}", number(member, "node"), word(member, "http"))
        })
    }

    fn change(self, out: &mut dyn Write, path: &Path, done: &str) -> Result {
        let changed = HttpClient::with_key(&self.http, &self.key)?.post_patiently(path)?;
        self.form.print(out, std::slice::from_ref(&changed), |_| done.to_owned())
    }
}
