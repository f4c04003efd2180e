//! Quotas of a request: how long its client must wait after the response (KIP-13, KIP-124 and
//! KIP-219).
//!
//! A request is handled whatever it takes. Its response has the time for which the client must
//! wait, and the server reads the next request only after that time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use quire::system::{Principal, QuotaKind, RuleSet};
use quire_access::QuotaClient;
use tokio::time::Instant;

use crate::api::OFFERED;
use crate::broker::Broker;
use crate::request::{Api, Request};

/// The bytes before the header of a response, and those of a correlation id.
const LENGTH_BYTES: usize = 4;
const CORRELATION_BYTES: usize = 4;
const ERROR_CODE_BYTES: usize = 2;

/// The client of a request, while there is any quota.
#[derive(Debug)]
pub(crate) struct RequestQuotas {
    rules: Arc<RuleSet>,
    user: Option<Principal>,
    client: String,
    api: Api,
}

impl RequestQuotas {
    /// The quotas for a request; `None` without any quota.
    pub(crate) fn of(broker: &Broker, user: Option<&Principal>, request: &Request) -> Option<Self> {
        let rules = broker.owner().access().rules();
        rules.has_quotas().then(|| RequestQuotas {
            rules,
            user: user.cloned(),
            client: request.client.clone(),
            api: request.api,
        })
    }

    fn take(&self, broker: &Broker, kind: QuotaKind, amount: f64) -> Duration {
        let user = self.user.as_ref().map(|user| &*user.name);
        let client = QuotaClient { user, client: &self.client };
        broker.quotas.take(&self.rules, client, kind, amount, Instant::now())
    }

    /// Takes the bytes of a produce request.
    pub(crate) fn produced(&self, broker: &Broker, bytes: usize) -> Duration {
        self.take(broker, QuotaKind::ProducerByteRate, bytes as f64)
    }

    /// Takes the bytes of a response to a fetch.
    pub(crate) fn answered(&self, broker: &Broker, bytes: usize) -> Duration {
        match self.api {
            Api::Fetch => self.take(broker, QuotaKind::ConsumerByteRate, bytes as f64),
            _ => Duration::ZERO,
        }
    }

    /// Takes the processor time of a request. Members of groups and clients that authenticate are
    /// not delayed for theirs.
    pub(crate) fn worked(&self, broker: &Broker, time: Duration) -> Duration {
        match self.api {
            Api::JoinGroup
            | Api::SyncGroup
            | Api::Heartbeat
            | Api::LeaveGroup
            | Api::Versions
            | Api::SaslHandshake
            | Api::SaslAuthenticate => Duration::ZERO,
            _ => self.take(broker, QuotaKind::RequestPercentage, time.as_secs_f64() * 100.0),
        }
    }
}

/// The time as responses have it, rounded up.
pub(crate) fn throttle_ms(wait: Duration) -> i32 {
    i32::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(i32::MAX)
}

/// The bytes of a response's body before the time for which the client must wait; `None` when this
/// version of the API does not have it.
fn bytes_before(api: Api, version: i16) -> Option<usize> {
    let (first_version, bytes) = match api {
        Api::Heartbeat | Api::LeaveGroup | Api::SyncGroup | Api::FindCoordinator | Api::ListGroups => (1, 0),
        Api::DescribeGroups => (1, 0),
        Api::JoinGroup | Api::ListOffsets | Api::OffsetForLeaderEpoch => (2, 0),
        Api::Metadata | Api::OffsetCommit | Api::OffsetFetch => (3, 0),
        Api::OffsetDelete => (0, ERROR_CODE_BYTES),
        Api::Fetch
        | Api::InitProducerId
        | Api::DeleteGroups
        | Api::DeleteRecords
        | Api::CreateTopics
        | Api::DeleteTopics
        | Api::CreatePartitions
        | Api::DescribeConfigs
        | Api::AlterConfigs
        | Api::IncrementalAlterConfigs
        | Api::DescribeLogDirs
        | Api::DescribeCluster
        | Api::DescribeProducers
        | Api::AlterReplicaLogDirs
        | Api::ElectLeaders
        | Api::AlterPartitionReassignments
        | Api::ListPartitionReassignments
        | Api::UpdateFeatures
        | Api::ListConfigResources
        | Api::DescribeTopicPartitions
        | Api::DescribeClientQuotas
        | Api::AlterClientQuotas
        | Api::DescribeAcls
        | Api::CreateAcls
        | Api::DeleteAcls
        | Api::DescribeUserScramCredentials
        | Api::AlterUserScramCredentials => (0, 0),
        // Produce and ApiVersions have it after their lists. The one writes it with its response,
        // the other never waits.
        Api::Produce | Api::Versions | Api::SaslHandshake | Api::SaslAuthenticate | Api::DescribeQuorum => return None,
    };
    (version >= first_version).then_some(bytes)
}

/// Writes the time for which the client must wait into the frame of a response, if the response has
/// it.
pub(crate) fn with_throttle(api: Api, version: i16, frame: Bytes, wait: Duration) -> Bytes {
    let Some(bytes_before) = bytes_before(api, version) else { return frame };
    let offered = OFFERED.iter().find(|offered| offered.api == api);
    // A header of version 1 ends with an empty list of tagged fields.
    let tagged_bytes = offered.map_or(0, |offered| usize::from(offered.key.response_header_version(version) > 0));
    let at = LENGTH_BYTES + CORRELATION_BYTES + tagged_bytes + bytes_before;
    let mut frame = BytesMut::from(frame);
    if let Some(field) = frame.get_mut(at..at + 4) {
        field.copy_from_slice(&throttle_ms(wait).to_be_bytes());
    }
    frame.freeze()
}

/// Measures the time in which a future runs.
pub(crate) struct RunningTime<'f, F> {
    future: Pin<&'f mut F>,
    pub(crate) time: Duration,
}

impl<'f, F> RunningTime<'f, F> {
    pub(crate) fn of(future: Pin<&'f mut F>) -> Self {
        RunningTime { future, time: Duration::ZERO }
    }
}

impl<F: Future> Future for RunningTime<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let begun = Instant::now();
        let polled = self.future.as_mut().poll(context);
        self.time += begun.elapsed();
        polled
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages as kafka;
    use kafka_protocol::protocol::{Encodable, HeaderVersion};

    use super::*;
    use crate::response;

    const WAIT: Duration = Duration::from_micros(1_234_001);

    /// Checks each version of an API that is served, from `first` on.
    fn check<R: Encodable + HeaderVersion + Default>(api: Api, first: i16, throttled: fn(i32) -> R) {
        let offered = OFFERED.iter().find(|offered| offered.api == api).expect("it is offered");
        for version in (first..20).filter(|version| offered.is_served(*version)) {
            let frame = |response: &R| response::frame(7, version, response).expect("a frame");
            let written = with_throttle(api, version, frame(&R::default()), WAIT);
            assert_eq!(written, frame(&throttled(1_235)), "{api:?} version {version}");
        }
    }

    macro_rules! check_all {
        ($($api:ident $response:ident $first:literal,)*) => {{
            $(check(Api::$api, $first, |time| kafka::$response::default().with_throttle_time_ms(time));)*
            [$(Api::$api),*]
        }};
    }

    #[test]
    fn the_responses_of_all_versions_get_the_time() {
        let checked = check_all![
            Fetch FetchResponse 0,
            // The library has no older version.
            ListOffsets ListOffsetsResponse 1,
            Metadata MetadataResponse 0,
            OffsetCommit OffsetCommitResponse 2,
            OffsetFetch OffsetFetchResponse 0,
            FindCoordinator FindCoordinatorResponse 0,
            JoinGroup JoinGroupResponse 0,
            Heartbeat HeartbeatResponse 0,
            LeaveGroup LeaveGroupResponse 0,
            SyncGroup SyncGroupResponse 0,
            DescribeGroups DescribeGroupsResponse 0,
            ListGroups ListGroupsResponse 0,
            InitProducerId InitProducerIdResponse 0,
            DeleteGroups DeleteGroupsResponse 0,
            OffsetDelete OffsetDeleteResponse 0,
            DeleteRecords DeleteRecordsResponse 0,
            CreateTopics CreateTopicsResponse 0,
            DeleteTopics DeleteTopicsResponse 0,
            CreatePartitions CreatePartitionsResponse 0,
            OffsetForLeaderEpoch OffsetForLeaderEpochResponse 0,
            DescribeConfigs DescribeConfigsResponse 0,
            AlterConfigs AlterConfigsResponse 0,
            IncrementalAlterConfigs IncrementalAlterConfigsResponse 0,
            DescribeLogDirs DescribeLogDirsResponse 0,
            DescribeCluster DescribeClusterResponse 0,
            DescribeProducers DescribeProducersResponse 0,
            AlterReplicaLogDirs AlterReplicaLogDirsResponse 0,
            ElectLeaders ElectLeadersResponse 0,
            AlterPartitionReassignments AlterPartitionReassignmentsResponse 0,
            ListPartitionReassignments ListPartitionReassignmentsResponse 0,
            UpdateFeatures UpdateFeaturesResponse 0,
            ListConfigResources ListConfigResourcesResponse 0,
            DescribeTopicPartitions DescribeTopicPartitionsResponse 0,
            DescribeClientQuotas DescribeClientQuotasResponse 0,
            AlterClientQuotas AlterClientQuotasResponse 0,
            DescribeAcls DescribeAclsResponse 0,
            CreateAcls CreateAclsResponse 0,
            DeleteAcls DeleteAclsResponse 0,
            DescribeUserScramCredentials DescribeUserScramCredentialsResponse 0,
            AlterUserScramCredentials AlterUserScramCredentialsResponse 0,
        ];
        let without = [Api::Produce, Api::Versions, Api::SaslHandshake, Api::SaslAuthenticate, Api::DescribeQuorum];
        for api in OFFERED.iter().map(|offered| offered.api) {
            assert_ne!(checked.contains(&api), without.contains(&api), "{api:?}");
        }
    }
}
