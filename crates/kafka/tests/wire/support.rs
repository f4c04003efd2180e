//! A server over a database in its own directory, a client, and common requests of the tests.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{
    ApiKey, FetchRequest, MetadataRequest, ProduceRequest, RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use quire::streams::wire::{Batch, BatchBuilder, HEADER_BYTES};
use quire::{Database, Durability};
use quire_access::ConnectionCounters;
use quire_kafka::{Counters, Server, Settings};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Bounds how long a broken server can hang a test; nothing depends on how long it is.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) async fn patiently<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("an answer, and no hanging server")
}

pub(crate) struct World {
    directory: TempDir,
    settings: Settings,
    pub(crate) database: Database,
    pub(crate) address: SocketAddr,
    pub(crate) counters: Arc<Counters>,
    pub(crate) connections: Arc<ConnectionCounters>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<std::io::Result<()>>,
}

impl World {
    pub(crate) async fn new() -> Self {
        World::with(Settings::default()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        // Small segments are made quickly, and every test makes some.
        let builder = Database::builder(directory.path()).durability(Durability::Os).segment_bytes(4 << 20);
        let database = builder.open().expect("a database");
        World::over(directory, database, settings).await
    }

    /// A server over the database of an earlier version in the corpus of the crate `quire`, where
    /// objects share topic names.
    pub(crate) async fn earlier() -> Self {
        let corpus = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../quire/tests/corpus/names"));
        let directory = tempfile::tempdir().expect("a directory");
        let shard = directory.path().join("shard-0000");
        fs::create_dir(&shard).expect("a directory");
        fs::copy(corpus.join("quire.meta"), directory.path().join("quire.meta")).expect("copied");
        let log = "00000000000000000001.log";
        fs::copy(corpus.join(log), shard.join(log)).expect("copied");
        let segment = fs::OpenOptions::new().write(true).open(shard.join(log)).expect("a segment");
        segment.set_len(4 << 20).expect("as long as it was");
        let builder = Database::builder(directory.path()).durability(Durability::Os).segment_bytes(4 << 20);
        let database = builder.open().expect("a database");
        World::over(directory, database, Settings::default()).await
    }

    pub(crate) async fn over(directory: TempDir, database: Database, settings: Settings) -> Self {
        let any = "127.0.0.1:0".parse().expect("an address");
        let server =
            Server::bind_with(database.clone(), any, settings.clone()).await.expect("a free port").without_audit();
        World::serving(directory, database, settings, server)
    }

    pub(crate) fn serving(directory: TempDir, database: Database, settings: Settings, server: Server) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (address, counters, connections) = (server.address(), server.counters(), server.connections());
        let running = tokio::spawn(server.run(async move {
            let _ = stopped.await;
        }));
        World { directory, settings, database, address, counters, connections, stop, running }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::at(self.address).await
    }

    /// Stops the server, and gives the directory back, with the database closed.
    pub(crate) async fn stop(self) -> (TempDir, Settings) {
        self.stop.send(()).expect("the server runs");
        patiently(self.running).await.expect("no panic").expect("no error");
        (self.directory, self.settings)
    }

    pub(crate) async fn restart(self) -> Self {
        let (directory, settings) = self.stop().await;
        let database = Database::open(directory.path()).expect("a database");
        World::over(directory, database, settings).await
    }

    /// Waits until the counts are as expected.
    pub(crate) async fn counted(&self, expect: impl Fn(quire_kafka::Statistics) -> bool) {
        let until = async {
            while !expect(self.counters.statistics()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        patiently(until).await;
    }
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    correlation_id: i32,
}

impl Client {
    pub(crate) async fn at(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server accepts");
        Client { stream, correlation_id: 0 }
    }

    /// Sends a request, and gives its correlation id.
    pub(crate) async fn send<R: Request>(&mut self, version: i16, request: &R) -> i32 {
        self.correlation_id += 1;
        let frame = frame(self.correlation_id, version, request);
        self.stream.write_all(&frame).await.expect("the server takes a request");
        self.correlation_id
    }

    pub(crate) async fn receive<R: Decodable + HeaderVersion>(&mut self, version: i16) -> (i32, R) {
        let mut frame = self.receive_frame().await.expect("an answer");
        let header = ResponseHeader::decode(&mut frame, R::header_version(version)).expect("a header");
        let response = R::decode(&mut frame, version).expect("a response");
        assert!(!frame.has_remaining(), "{} bytes behind a response", frame.remaining());
        (header.correlation_id, response)
    }

    /// The next frame; `None` when the server has closed.
    pub(crate) async fn receive_frame(&mut self) -> Option<Bytes> {
        let mut length = [0; 4];
        patiently(self.stream.read_exact(&mut length)).await.ok()?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        patiently(self.stream.read_exact(&mut frame)).await.ok()?;
        Some(frame.into())
    }

    pub(crate) async fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        let sent = self.send(version, request).await;
        let (received, response) = self.receive(version).await;
        assert_eq!(received, sent);
        response
    }

    pub(crate) async fn is_closed(&mut self) -> bool {
        self.receive_frame().await.is_none()
    }

    /// Asks about a topic, which creates it.
    pub(crate) async fn topic(&mut self, name: &str) -> MetadataResponseTopic {
        self.call(12, &about(name)).await.topics.remove(0)
    }

    pub(crate) async fn produce(&mut self, topic: &str, records: &[u8]) -> PartitionProduceResponse {
        let response = self.call(9, &producing(topic, 0, records)).await;
        response.responses[0].partition_responses[0].clone()
    }

    pub(crate) async fn fetch(&mut self, topic: &str, offset: i64) -> PartitionData {
        let response = self.call(12, &fetching(topic, offset)).await;
        assert_eq!((response.error_code, response.session_id), (0, 0));
        response.responses[0].partitions[0].clone()
    }
}

/// The frame of a request.
pub(crate) fn frame<R: Request>(correlation_id: i32, version: i16, request: &R) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_i32(0);
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(text("a test")));
    let header_version = ApiKey::try_from(R::KEY).expect("an API").request_header_version(version);
    header.encode(&mut out, header_version).expect("a header");
    request.encode(&mut out, version).expect("a request");
    let length = u32::try_from(out.len() - 4).expect("a length");
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

pub(crate) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub(crate) fn about(topic: &str) -> MetadataRequest {
    let topic = MetadataRequestTopic::default().with_name(Some(TopicName(text(topic))));
    MetadataRequest::default().with_topics(Some(vec![topic])).with_allow_auto_topic_creation(true)
}

pub(crate) fn producing(topic: &str, partition: i32, records: &[u8]) -> ProduceRequest {
    let data =
        PartitionProduceData::default().with_index(partition).with_records(Some(Bytes::copy_from_slice(records)));
    let topic = TopicProduceData::default().with_name(TopicName(text(topic))).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(-1).with_timeout_ms(1000).with_topic_data(vec![topic])
}

/// Fetches from the first partition, without waiting.
pub(crate) fn fetching(topic: &str, offset: i64) -> FetchRequest {
    let partition = FetchPartition::default().with_fetch_offset(offset).with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default().with_topic(TopicName(text(topic))).with_partitions(vec![partition]);
    FetchRequest::default().with_max_bytes(1 << 20).with_topics(vec![topic])
}

/// A batch of these values.
pub(crate) fn batch(values: &[&str]) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for (index, value) in values.iter().enumerate() {
        builder.add(Some(b"key"), Some(value.as_bytes()), &[], 1_000 + index as i64).expect("room");
    }
    builder.finish().expect("a record").bytes().to_vec()
}

/// The same batch after a change that a producer could have made: its checksum is right.
pub(crate) fn resealed(mut batch: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    change(&mut batch);
    let length = i32::try_from(batch.len() - 12).expect("a length");
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &batch[21..]);
    batch[17..21].copy_from_slice(&u32::try_from(crc).expect("32 bits").to_be_bytes());
    batch
}

/// A batch whose header says compressed, with arbitrary bytes as records.
pub(crate) fn compressed(codec: u8, values: &[&str]) -> Vec<u8> {
    resealed(batch(values), |batch| {
        batch[22] = codec;
        batch.truncate(HEADER_BYTES);
        batch.extend_from_slice(b"whatever the codec makes of it");
    })
}

/// The fetched batches, with the base offsets in their headers.
pub(crate) fn batches(mut records: &[u8]) -> Vec<(i64, Batch<'_>)> {
    let mut batches = Vec::new();
    while !records.is_empty() {
        let length = u32::from_be_bytes(records[8..12].try_into().expect("four bytes")) as usize;
        let (bytes, rest) = records.split_at(12 + length);
        let batch = Batch::parse(bytes).expect("a whole batch");
        batches.push((batch.base_offset(), batch));
        records = rest;
    }
    batches
}

/// The values that were fetched, with their offsets.
pub(crate) fn values(data: &PartitionData) -> Vec<(i64, String)> {
    let records = data.records.as_deref().expect("records");
    let mut values = Vec::new();
    for (base, batch) in batches(records) {
        for record in batch.records().expect("an uncompressed batch") {
            let record = record.expect("a whole record");
            let value = String::from_utf8(record.value.expect("a value").to_vec()).expect("text");
            values.push((base + i64::from(record.offset_delta), value));
        }
    }
    values
}
