//! `GET /v1/cluster`: the members, their roles and their positions. `POST /v1/cluster/remove` and
//! `POST /v1/cluster/transfer` change them.

use std::sync::Arc;

use axum::extract::State;
use quire::system::MemberRole;
use quire::{ClusterControl, ClusterStatus, Operation, Resource};
use quire_api::Code;
use quire_api::reply::{ClusterChangeReply, ClusterMemberReply, ClusterReply};

use crate::app::App;
use crate::error::Problem;
use crate::idempotency::NoRequestKey;
use crate::params::Params;
use crate::response::JsonResponse;

fn control(app: &App, operation: Operation) -> Result<Arc<dyn ClusterControl>, Problem> {
    app.database().check_permission(Resource::DATABASE, operation)?;
    let control = app.owner().cluster_control();
    control.ok_or_else(|| Problem::new(Code::NotFound, "this server is no node of a cluster"))
}

/// Returns the cluster as this node sees it. Each node answers.
pub(crate) async fn status(State(app): State<Arc<App>>, params: Params) -> Result<JsonResponse, Problem> {
    params.end()?;
    let status = control(&app, Operation::Describe)?.status();
    JsonResponse::of(&app.memory, &reply_of(status))
}

fn reply_of(status: ClusterStatus) -> ClusterReply {
    let appended = status.appended.get();
    let members = status.members.into_iter().map(|state| {
        let addresses = state.member.addresses;
        let acknowledged = state.acknowledged.map(|position| position.get());
        ClusterMemberReply {
            node: state.node,
            role: state.member.role.name().to_owned(),
            cluster: addresses.cluster,
            http: addresses.http,
            grpc: addresses.grpc,
            kafka: addresses.kafka,
            connected: state.is_connected,
            acknowledged,
            lag: acknowledged.map(|position| appended.saturating_sub(position)),
        }
    });
    ClusterReply {
        node: status.office.node,
        role: status.role.name().to_owned(),
        term: status.office.term.get(),
        leader: status.office.leader,
        appended,
        durable: status.durable.get(),
        published: status.published.get(),
        elections_won: status.elections_won,
        members: members.collect(),
    }
}

/// The number of damaged places in the log, where this node leaves the office of the leader to
/// other voters because of them.
pub(crate) fn damage_that_holds_back(app: &App) -> Option<usize> {
    let status = app.owner().cluster_control()?.status();
    let voters = status.members.iter().filter(|member| member.member.role == MemberRole::Voter).count();
    let damaged = app.owner().damage().len();
    (damaged > 0 && voters > 1).then_some(damaged)
}

/// Removes a member, and responds when the nodes agree.
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    _no_key: NoRequestKey,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let node = params.one("node")?;
    params.end()?;
    let node = node.ok_or_else(|| Problem::invalid("node is missing"))?;
    control(&app, Operation::Alter)?.remove(node).await?;
    Ok(JsonResponse::of_done(&app.memory, &ClusterChangeReply { done: true }))
}

/// Begins to hand the office of the leader over.
pub(crate) async fn transfer(
    State(app): State<Arc<App>>,
    _no_key: NoRequestKey,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let node = params.one("node")?;
    params.end()?;
    control(&app, Operation::Alter)?.transfer(node).await?;
    Ok(JsonResponse::of_done(&app.memory, &ClusterChangeReply { done: true }))
}
