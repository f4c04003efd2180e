//! What the server itself knows: the last refused commits, and the figures of the last hour.

use quire::{Operation, RefusedCommit, Resource, TouchedResource};
use quire_access::budget::ByteClaim;
use quire_api::MetricsHistory;
use quire_api::reply::HistorySample;
use tonic::Status;

use crate::app::App;
use crate::error::{failed, overloaded, refused_commit};
use crate::proto;
use crate::proto::{HistoryRequest, HistoryResponse, RefusalsResponse};

/// Returns the refusals that the client may see, newest first.
pub(super) fn refusals(app: &App) -> Result<(RefusalsResponse, ByteClaim), Status> {
    let mut claim = app.caller().claim();
    let mut refusals = Vec::new();
    for refused in app.database().recent_refusals().map_err(failed)? {
        let message = refusal(refused);
        claim.grow(bytes(&message)).map_err(overloaded)?;
        refusals.push(message);
    }
    Ok((RefusalsResponse { refusals }, claim))
}

fn refusal(refused: RefusedCommit) -> proto::RefusedCommit {
    let RefusedCommit { number, time, refusal, resources } = refused;
    let resource = |TouchedResource { kind, name }| proto::TouchedResource { kind: kind.name().to_owned(), name };
    proto::RefusedCommit {
        number,
        time_us: time.as_micros(),
        resources: resources.into_iter().map(resource).collect(),
        ..refused_commit(&refusal)
    }
}

/// The memory of a refusal.
fn bytes(message: &proto::RefusedCommit) -> usize {
    let resources = message.resources.iter().map(|resource| resource.name.as_ref().map_or(0, String::len));
    let facts = message.facts.iter().map(|(name, value)| name.len() + value.len());
    size_of::<proto::RefusedCommit>()
        + message.resources.len() * size_of::<proto::TouchedResource>()
        + message.facts.len() * size_of::<(String, String)>()
        + message.message.len()
        + resources.chain(facts).sum::<usize>()
}

/// Returns the samples after a time.
pub(super) fn history(app: &App, request: &HistoryRequest) -> Result<(HistoryResponse, ByteClaim), Status> {
    app.database().check_permission(Resource::DATABASE, Operation::Describe).map_err(failed)?;
    let mut claim = app.caller().claim();
    let samples = app.history().after(request.after_us / 1_000);
    claim.grow(samples.len() * 2 * size_of::<proto::HistorySample>()).map_err(overloaded)?;
    let interval_us = u64::try_from(MetricsHistory::INTERVAL.as_micros()).expect("it is short");
    Ok((HistoryResponse { interval_us, samples: samples.iter().map(sample).collect() }, claim))
}

fn sample(sample: &HistorySample) -> proto::HistorySample {
    let micros = |millis: f64| (millis * 1_000.0).round() as u64;
    proto::HistorySample {
        time_us: sample.time_ms * 1_000,
        commits: sample.commits,
        refusals: sample.refusals,
        entries: sample.entries,
        log_bytes: sample.log_bytes,
        syncs: sample.syncs,
        requests: sample.requests,
        commit_p99_us: sample.commit_p99_ms.map(micros),
        sync_p99_us: sample.sync_p99_ms.map(micros),
        connections: sample.connections,
        client_bytes: sample.client_bytes,
        lag: sample.lag,
        oldest_pending_us: sample.oldest_pending_ms.map(|millis| millis * 1_000),
        disk_free_bytes: sample.disk_free_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_figures_of_http_in_microseconds() {
        let of_http = HistorySample {
            time_ms: 1_790_000_000_000,
            commit_p99_ms: Some(2.5),
            oldest_pending_ms: Some(7),
            lag: Some(3),
            ..HistorySample::default()
        };
        let message = sample(&of_http);
        assert_eq!((message.time_us, message.commit_p99_us), (1_790_000_000_000_000, Some(2_500)));
        assert_eq!((message.oldest_pending_us, message.lag, message.sync_p99_us), (Some(7_000), Some(3), None));
    }
}
