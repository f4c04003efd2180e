//! A minimal Kafka client for load generation, so that the broker dominates the measurement.
//!
//! Its request versions are those that all brokers of recent years support: Produce 7, Fetch 4,
//! CreateTopics 2. It parses only the necessary parts of a batch.

use std::io;

use quire::streams::wire::BatchBuilder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use quire_cli::failure::{CommandError, Result};

const PRODUCE: (i16, i16) = (0, 7);
const FETCH: (i16, i16) = (1, 4);
const CREATE_TOPICS: (i16, i16) = (19, 2);

/// Transient error codes: the topic is new, and its leader is not known on all nodes yet.
const NOT_YET: [i16; 3] = [3, 5, 6];
/// The topic exists already.
const EXISTS: i16 = 36;

/// Attempts until a broker must know a new topic, 10 ms apart.
const STEPS_MAX: u32 = 3_000;

/// A connection to a broker.
#[derive(Debug)]
pub(super) struct WireClient {
    stream: TcpStream,
    /// The last response.
    answer: Vec<u8>,
}

/// The result of a fetch.
#[derive(Debug)]
pub(super) struct FetchedBytes<'c> {
    /// Whole batches, possibly with a part of one at the end.
    pub(super) records: &'c [u8],
}

impl WireClient {
    /// # Errors
    /// When no broker accepts connections at the address.
    pub(super) async fn connect(bootstrap: &str) -> Result<Self> {
        let failed = |error: io::Error| CommandError::at(format_args!("connect to {bootstrap}"), error);
        let stream = TcpStream::connect(bootstrap).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        Ok(WireClient { stream, answer: Vec::new() })
    }

    /// Sends a request from [`produce`] or [`fetch`].
    ///
    /// # Errors
    /// When the connection breaks.
    pub(super) async fn send(&mut self, request: &[u8]) -> Result {
        self.stream.write_all(request).await.map_err(|error| CommandError::at("send a request", error))
    }

    async fn receive(&mut self) -> Result {
        let failed = |error: io::Error| CommandError::at("receive a response", error);
        let length = self.stream.read_i32().await.map_err(failed)?;
        self.answer.resize(usize::try_from(length).unwrap_or(0), 0);
        self.stream.read_exact(&mut self.answer).await.map_err(failed)?;
        Ok(())
    }

    /// Waits for the response to a produce request, and returns its error code.
    async fn produced_code(&mut self) -> Result<i16> {
        self.receive().await?;
        let mut answer = ResponseReader::behind_header(&self.answer);
        answer.skip(4);
        answer.text();
        answer.skip(4 + 4);
        Ok(answer.i16())
    }

    /// Waits for the response to a produce request.
    ///
    /// # Errors
    /// When the broker refused it.
    pub(super) async fn produced(&mut self) -> Result {
        match self.produced_code().await? {
            0 => Ok(()),
            code => Err(CommandError::new(format!("the broker refused a batch with error {code}"))),
        }
    }

    /// Waits for the response to a fetch of one partition.
    ///
    /// # Errors
    /// When the broker refused it.
    pub(super) async fn fetched(&mut self) -> Result<FetchedBytes<'_>> {
        self.receive().await?;
        let mut answer = ResponseReader::behind_header(&self.answer);
        answer.skip(4 + 4);
        answer.text();
        answer.skip(4 + 4);
        let code = answer.i16();
        if code != 0 {
            return Err(CommandError::new(format!("the broker refused a fetch with error {code}")));
        }
        answer.skip(8 + 8);
        let aborted = answer.i32().max(0) as usize;
        answer.skip(aborted * (8 + 8));
        let length = answer.i32().max(0) as usize;
        Ok(FetchedBytes { records: answer.take(length) })
    }

    /// Creates a topic, and waits until it accepts messages. The first message of each partition is
    /// one byte.
    ///
    /// # Errors
    /// When the broker does not create it.
    pub(super) async fn create(&mut self, topic: &str, partitions: u32) -> Result {
        let mut request = Vec::new();
        head(&mut request, CREATE_TOPICS);
        put_i32(&mut request, 1);
        put_text(&mut request, topic);
        put_i32(&mut request, partitions as i32);
        put_i16(&mut request, 1);
        put_i32(&mut request, 0);
        put_i32(&mut request, 0);
        put_i32(&mut request, 30_000);
        request.push(0);
        finish(&mut request);
        self.send(&request).await?;
        self.receive().await?;
        let mut answer = ResponseReader::behind_header(&self.answer);
        answer.skip(4 + 4);
        answer.text();
        match answer.i16() {
            0 | EXISTS => {}
            code => return Err(CommandError::new(format!("the broker did not create a topic: error {code}"))),
        }
        let first = batch(b"q", 1);
        for partition in 0..partitions {
            let request = produce(topic, partition, &first);
            for step in 0.. {
                self.send(&request).await?;
                match self.produced_code().await? {
                    0 => break,
                    code if NOT_YET.contains(&code) && step < STEPS_MAX => {
                        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                    }
                    code => return Err(CommandError::new(format!("a new topic refused a message: error {code}"))),
                }
            }
        }
        Ok(())
    }
}

impl FetchedBytes<'_> {
    /// The offset after the last whole batch, and the number of records; `None` without a whole
    /// batch.
    pub(super) fn end(&self) -> Option<(i64, u64)> {
        let (mut rest, mut end, mut count) = (self.records, None, 0);
        while let Some(header) = rest.first_chunk::<61>() {
            let length = i32::from_be_bytes(header[8..12].try_into().expect("four bytes")) as usize + 12;
            if rest.len() < length {
                break;
            }
            let base = i64::from_be_bytes(header[..8].try_into().expect("eight bytes"));
            let last = i32::from_be_bytes(header[23..27].try_into().expect("four bytes"));
            count += i32::from_be_bytes(header[57..].try_into().expect("four bytes")) as u64;
            end = Some(base + i64::from(last) + 1);
            rest = &rest[length..];
        }
        end.map(|end| (end, count))
    }
}

/// A record batch that holds `value` `count` times.
pub(super) fn batch(value: &[u8], count: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for _ in 0..count {
        builder.add(None, Some(value), &[], 0).expect("the batches of a benchmark are small");
    }
    builder.finish().expect("the batch has a record").bytes().to_vec()
}

/// A request to produce a batch, with acks=all.
pub(super) fn produce(topic: &str, partition: u32, batch: &[u8]) -> Vec<u8> {
    let mut request = Vec::with_capacity(batch.len() + 128);
    head(&mut request, PRODUCE);
    put_i16(&mut request, -1);
    put_i16(&mut request, -1);
    put_i32(&mut request, 30_000);
    put_i32(&mut request, 1);
    put_text(&mut request, topic);
    put_i32(&mut request, 1);
    put_i32(&mut request, partition as i32);
    put_i32(&mut request, batch.len() as i32);
    request.extend_from_slice(batch);
    finish(&mut request);
    request
}

/// A request to fetch from partition 0: at most `bytes_max` bytes, with a wait of `wait_ms` for the
/// first byte.
pub(super) fn fetch(topic: &str, offset: i64, bytes_max: i32, wait_ms: i32) -> Vec<u8> {
    let mut request = Vec::new();
    head(&mut request, FETCH);
    put_i32(&mut request, -1);
    put_i32(&mut request, wait_ms);
    put_i32(&mut request, 1);
    put_i32(&mut request, 50 << 20);
    request.push(0);
    put_i32(&mut request, 1);
    put_text(&mut request, topic);
    put_i32(&mut request, 1);
    put_i32(&mut request, 0);
    request.extend_from_slice(&offset.to_be_bytes());
    put_i32(&mut request, bytes_max);
    finish(&mut request);
    request
}

/// Space for the length, API, version, correlation id and client id.
fn head(request: &mut Vec<u8>, (api, version): (i16, i16)) {
    put_i32(request, 0);
    put_i16(request, api);
    put_i16(request, version);
    put_i32(request, 0);
    put_text(request, "quire-bench");
}

fn finish(request: &mut [u8]) {
    let length = request.len() as i32 - 4;
    request[..4].copy_from_slice(&length.to_be_bytes());
}

fn put_i16(request: &mut Vec<u8>, value: i16) {
    request.extend_from_slice(&value.to_be_bytes());
}

fn put_i32(request: &mut Vec<u8>, value: i32) {
    request.extend_from_slice(&value.to_be_bytes());
}

fn put_text(request: &mut Vec<u8>, text: &str) {
    put_i16(request, text.len() as i16);
    request.extend_from_slice(text.as_bytes());
}

/// A response that is read from the front. A missing part reads as zeros, which no caller expects.
struct ResponseReader<'a> {
    rest: &'a [u8],
}

impl<'a> ResponseReader<'a> {
    fn behind_header(bytes: &'a [u8]) -> Self {
        let mut answer = ResponseReader { rest: bytes };
        answer.skip(4);
        answer
    }

    fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    fn skip(&mut self, bytes: usize) {
        self.take(bytes);
    }

    fn i16(&mut self) -> i16 {
        self.take(2).try_into().map_or(-1, i16::from_be_bytes)
    }

    fn i32(&mut self) -> i32 {
        self.take(4).try_into().map_or(-1, i32::from_be_bytes)
    }

    fn text(&mut self) {
        let length = self.i16().max(0) as usize;
        self.skip(length);
    }
}
