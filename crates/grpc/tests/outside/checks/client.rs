//! A client that sends messages as they are, and reads what comes back without looking into it.

use std::time::Duration;

use prost::bytes::{Buf, BufMut};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// After how many seconds an answer does not come any more.
const PATIENCE_S: u64 = 20;

/// How long a subscription is listened to: it has no end of its own.
const LISTENED: Duration = Duration::from_millis(5);

/// Calls a method, and reads its answer to the end.
///
/// # Errors
/// What the server answers with.
pub(crate) async fn call(channel: Channel, path: &str, messages: Vec<Vec<u8>>) -> Result<(), Status> {
    let is_endless = ["/Subscribe", "/Changes", "/Consume"].into_iter().any(|end| path.ends_with(end));
    let called = async {
        let mut client = Grpc::new(channel);
        client.ready().await.expect("the connection stands");
        let path = PathAndQuery::try_from(path).expect("letters and digits");
        let request = Request::new(tokio_stream::iter(messages));
        let mut answers = client.streaming(request, path, Bytes).await?.into_inner();
        loop {
            let next = answers.message();
            let next = if is_endless { tokio::time::timeout(LISTENED, next).await } else { Ok(next.await) };
            match next {
                Ok(answer) => {
                    if answer?.is_none() {
                        return Ok(());
                    }
                }
                // Nothing more for now.
                Err(_) => return Ok(()),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(PATIENCE_S), called).await.expect("it ends")
}

/// The bytes of messages, as they are.
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Bytes;
    type Decoder = Bytes;

    fn encoder(&mut self) -> Bytes {
        Bytes
    }

    fn decoder(&mut self) -> Bytes {
        Bytes
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        message.advance(message.remaining());
        Ok(Some(()))
    }
}
