//! The service `Graph`: commits, reads, walks and the feed of changes of graphs.
//!
//! ```text
//! Commit ─▶ request ─▶ Database::submit ─▶ the ticket ─▶ replies, or a refusal
//! reads ─▶ snapshot: the graph at one position ─▶ an answer, or pages as the client takes them
//! ```
//! A stream keeps its position and not the graph: each page reads the graph again, as of that
//! position.

mod changes;
mod lists;
pub(crate) mod message;
pub(crate) mod request;
mod walks;

use std::sync::Arc;

use prost::Message as _;
use quire::graph::{Block, BlockId, Direction, GraphChange, GraphChangeKind, Wants};
use quire::{GraphSnapshot, Operation, Outcome, Place, Position, Reply, Resource, ResourceKind};
use quire_access::BoundedRequest;
use quire_access::budget::ByteClaim;
use tonic::{Request, Response, Status};

use crate::app::{App, ServiceComponents};
use crate::aside::{INLINE_BYTES_MAX, aside};
use crate::error::{failed, invalid, not_found, overloaded, refused_part, too_large};
use crate::idempotency::{self, CallKey};
use crate::metering::claimed;
use crate::pages::PageStream;
use crate::proto::graph_server::Graph;
use crate::proto::{self, get_blocks_response, get_versions_response};

/// Maximum number of blocks that one call reads.
const BLOCKS_MAX: usize = 1_000;

/// Maximum bytes of their metadata and content.
const BLOCKS_BYTES_MAX: usize = 64 << 20;

/// Maximum and default number of versions that one call returns.
const VERSIONS: (usize, usize) = (100, 1_000);

/// The service.
#[derive(Debug)]
pub(crate) struct GraphService {
    components: Arc<ServiceComponents>,
}

impl GraphService {
    pub(crate) fn new(components: Arc<ServiceComponents>) -> Self {
        GraphService { components }
    }

    /// The components for the running call.
    fn app(&self) -> Arc<App> {
        self.components.call()
    }

    /// Reads the graph as of a position, on another thread. `look` claims the memory of long
    /// messages.
    async fn read<T: Send + 'static>(
        &self,
        graph: String,
        at: Option<u64>,
        look: impl FnOnce(&GraphSnapshot, &mut ByteClaim) -> Result<T, Status> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let app = self.app();
        let (request, mut claim) = (BoundedRequest::begin(app.database()), app.caller().claim());
        let app = app.within(&request);
        let read = move || Ok((look(&snapshot(&app, &graph, at.map(Position::new))?, &mut claim)?, claim));
        aside(read).await.map(claimed)
    }
}

/// The graph as of a position, or its current state.
fn snapshot(app: &App, graph: &str, at: Option<Position>) -> Result<GraphSnapshot, Status> {
    let handle = app.database().graph(graph);
    let found = at.map_or_else(|| handle.snapshot(), |at| handle.snapshot_at(at)).map_err(failed)?;
    found.ok_or_else(|| not_found(format!("unknown graph {graph:?}")))
}

/// Reads the requested blocks.
fn block_ids(blocks: &[proto::BlockRef]) -> Result<Vec<BlockId>, Status> {
    if blocks.len() > BLOCKS_MAX {
        return Err(invalid(format!("too many blocks in a call: {}, at most {BLOCKS_MAX}", blocks.len())));
    }
    request::ids("block", blocks)
}

/// The blocks of a call: their metadata and content are bounded, and their memory is claimed.
#[derive(Debug)]
struct BlocksOfCall<'c> {
    claim: &'c mut ByteClaim,
    bytes: usize,
}

impl<'c> BlocksOfCall<'c> {
    fn new(claim: &'c mut ByteClaim) -> Self {
        BlocksOfCall { claim, bytes: 0 }
    }

    /// The message of the next block.
    fn message(&mut self, block: &Block<'_>) -> Result<proto::Block, Status> {
        self.bytes += block.metadata.len() + block.content.len();
        if self.bytes > BLOCKS_BYTES_MAX {
            return Err(too_many_bytes());
        }
        self.claim.grow(message::bytes_within(block)).map_err(overloaded)?;
        Ok(message::block(block))
    }
}

fn too_many_bytes() -> Status {
    too_large(format!("these blocks exceed {BLOCKS_BYTES_MAX} bytes: request fewer at once"))
}

#[tonic::async_trait]
impl Graph for GraphService {
    type ListBlocksStream = PageStream<proto::ListBlocksResponse>;
    type NeighboursStream = PageStream<proto::NeighboursResponse>;
    type WalkStream = PageStream<proto::WalkResponse>;
    type PathsStream = PageStream<proto::PathsResponse>;
    type OrderStream = PageStream<proto::OrderResponse>;
    type ComponentsStream = PageStream<proto::ComponentsResponse>;
    type MissingStream = PageStream<proto::MissingResponse>;
    type ChangesStream = PageStream<proto::GraphChangesResponse>;

    async fn commit(
        &self,
        request: Request<proto::CommitGraphRequest>,
    ) -> Result<Response<proto::CommitGraphResponse>, Status> {
        let key = CallKey::of(request.metadata())?;
        let request = request.into_inner();
        let app = self.app();
        let short = request.encoded_len() <= INLINE_BYTES_MAX;
        let begin = move || {
            let tags: Vec<_> = request.commands.iter().map(request::tags).collect();
            app.database().submit(&key.on(request::commit(&request, &tags)?)).map_err(failed)
        };
        let ticket = if short { begin()? } else { aside(begin).await? };
        match ticket.await.map_err(failed)? {
            Outcome::Committed(committed) => {
                let reply = |reply: &Reply| match reply {
                    Reply::Graph(reply) => message::reply(reply),
                    _ => unreachable!("a graph command returns a graph reply"),
                };
                let (position, replies) = (committed.at.position.get(), committed.replies.iter().map(reply).collect());
                Ok(idempotency::response(proto::CommitGraphResponse { position, replies }, committed.is_replay))
            }
            Outcome::Refused(refusal) => Err(refused_part(&refusal)),
        }
    }

    async fn describe(
        &self,
        request: Request<proto::DescribeGraphRequest>,
    ) -> Result<Response<proto::DescribeGraphResponse>, Status> {
        let graph = request.into_inner().graph;
        let resource = Resource::new(ResourceKind::Graph, &graph);
        let found = self.app().database().read_for(resource, Operation::Describe, |view| {
            let found = view.graphs.graph(&graph)?;
            Some(proto::DescribeGraphResponse {
                blocks: found.block_count() as u64,
                edges: found.edge_count() as u64,
                memory_bytes: found.memory_bytes() as u64,
                position: view.position.get(),
                retention: Some(message::retention(found.retention())),
                history_from: found.history_from().get(),
            })
        });
        let found = found.map_err(failed)?.await.map_err(failed)?;
        found.map(Response::new).ok_or_else(|| not_found(format!("unknown graph {graph:?}")))
    }

    async fn get_blocks(
        &self,
        request: Request<proto::GetBlocksRequest>,
    ) -> Result<Response<proto::GetBlocksResponse>, Status> {
        let proto::GetBlocksRequest { graph, blocks, at } = request.into_inner();
        let ids = block_ids(&blocks)?;
        self.read(graph, at, move |snapshot, claim| {
            let mut messages = BlocksOfCall::new(claim);
            let mut found = |id| {
                let block = snapshot.block(id, |block| messages.message(block));
                Ok(get_blocks_response::FoundBlock { block: block.map_err(failed)?.transpose()? })
            };
            let blocks = ids.into_iter().map(&mut found).collect::<Result<_, Status>>()?;
            Ok(proto::GetBlocksResponse { blocks, position: snapshot.at().get() })
        })
        .await
    }

    async fn exists(&self, request: Request<proto::ExistsRequest>) -> Result<Response<proto::ExistsResponse>, Status> {
        let proto::ExistsRequest { graph, blocks, at } = request.into_inner();
        let ids = block_ids(&blocks)?;
        self.read(graph, at, move |snapshot, _| {
            let exists = ids.into_iter().map(|id| snapshot.contains(id)).collect::<Result<_, _>>().map_err(failed)?;
            Ok(proto::ExistsResponse { exists, position: snapshot.at().get() })
        })
        .await
    }

    async fn get_versions(
        &self,
        request: Request<proto::GetVersionsRequest>,
    ) -> Result<Response<proto::GetVersionsResponse>, Status> {
        let proto::GetVersionsRequest { graph, block, before, limit } = request.into_inner();
        let id = request::id("block", block.as_ref())?;
        let limit = limit.map_or(VERSIONS.0, |limit| (limit as usize).min(VERSIONS.1));
        self.read(graph, None, move |snapshot, claim| {
            let before = before.map_or(Place::END, |before| Place::new(Position::new(before), 0));
            let (mut versions, mut refused, mut messages) = (Vec::new(), Ok(()), BlocksOfCall::new(claim));
            let mut show = |change: &GraphChange<'_>| {
                if versions.len() == limit {
                    return Wants::Break(());
                }
                let put = match &change.what {
                    GraphChangeKind::BlockPut(block) => match messages.message(block) {
                        Ok(message) => Some(message),
                        Err(status) => {
                            refused = Err(status);
                            return Wants::Break(());
                        }
                    },
                    _ => None,
                };
                let (position, time_us) = (change.place.position.get(), change.time.as_micros());
                versions.push(get_versions_response::BlockChange { position, time_us, put });
                Wants::Continue(())
            };
            let looked = snapshot.look(|graph| Ok(graph.versions(snapshot.history(), id, before, &mut show)?));
            looked.map_err(failed)?;
            refused.map(|()| proto::GetVersionsResponse { versions })
        })
        .await
    }

    async fn get_edge(
        &self,
        request: Request<proto::GetEdgeRequest>,
    ) -> Result<Response<proto::GetEdgeResponse>, Status> {
        let proto::GetEdgeRequest { graph, source, r#type, target, at } = request.into_inner();
        let (source, target) = (request::id("source", source.as_ref())?, request::id("target", target.as_ref())?);
        self.read(graph, at, move |snapshot, claim| {
            let found = snapshot.edge(source, &r#type, target, |edge| {
                claim.grow(edge.properties.len()).map_err(overloaded)?;
                Ok(proto::GetEdgeResponse {
                    properties: bytes::Bytes::copy_from_slice(edge.properties),
                    time_us: edge.time.as_micros(),
                    position: edge.place.position.get(),
                })
            });
            let missing = || not_found(format!("unknown edge {:?} from {source} to {target}", r#type));
            found.map_err(failed)?.ok_or_else(missing)?
        })
        .await
    }

    async fn degree(&self, request: Request<proto::DegreeRequest>) -> Result<Response<proto::DegreeResponse>, Status> {
        let proto::DegreeRequest { graph, block, types, at } = request.into_inner();
        let block = request::id("block", block.as_ref())?;
        self.read(graph, at, move |snapshot, _| {
            let types: Vec<&str> = types.iter().map(String::as_str).collect();
            let degree =
                |direction| snapshot.degree(block, direction, &types).map(|edges| edges as u64).map_err(failed);
            Ok(proto::DegreeResponse {
                outgoing: degree(Direction::Outgoing)?,
                incoming: degree(Direction::Incoming)?,
                position: snapshot.at().get(),
            })
        })
        .await
    }

    async fn list_blocks(
        &self,
        request: Request<proto::ListBlocksRequest>,
    ) -> Result<Response<Self::ListBlocksStream>, Status> {
        lists::blocks(self.app(), request.into_inner()).await.map(Response::new)
    }

    async fn neighbours(
        &self,
        request: Request<proto::NeighboursRequest>,
    ) -> Result<Response<Self::NeighboursStream>, Status> {
        lists::neighbours(self.app(), request.into_inner()).await.map(Response::new)
    }

    async fn walk(&self, request: Request<proto::WalkRequest>) -> Result<Response<Self::WalkStream>, Status> {
        walks::walk(self.app(), request.into_inner()).await.map(Response::new)
    }

    async fn paths(&self, request: Request<proto::PathsRequest>) -> Result<Response<Self::PathsStream>, Status> {
        walks::paths(self.app(), request.into_inner()).await.map(Response::new)
    }

    async fn order(&self, request: Request<proto::WalkRequest>) -> Result<Response<Self::OrderStream>, Status> {
        walks::order(self.app(), request.into_inner()).await.map(Response::new)
    }

    async fn components(
        &self,
        request: Request<proto::WalkRequest>,
    ) -> Result<Response<Self::ComponentsStream>, Status> {
        walks::components(self.app(), request.into_inner()).await.map(Response::new)
    }

    async fn missing(&self, request: Request<proto::MissingRequest>) -> Result<Response<Self::MissingStream>, Status> {
        lists::missing(self.app(), request.into_inner()).await.map(Response::new)
    }

    async fn changes(
        &self,
        request: Request<proto::GraphChangesRequest>,
    ) -> Result<Response<Self::ChangesStream>, Status> {
        changes::changes(self.app(), request.into_inner()).await.map(Response::new)
    }
}
