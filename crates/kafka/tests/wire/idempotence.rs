//! Idempotent producers on the wire: a batch that is sent again is stored once, also after a
//! restart.

use kafka_protocol::ResponseError::{self, *};
use kafka_protocol::messages::{InitProducerIdRequest, TransactionalId};

use crate::support::{Client, World, batch, producing, resealed, text, values};

/// The batch of a producer.
pub(crate) fn sent(producer: i64, epoch: i16, sequence: i32, values: &[&str]) -> Vec<u8> {
    resealed(batch(values), |batch| {
        batch[43..51].copy_from_slice(&producer.to_be_bytes());
        batch[51..53].copy_from_slice(&epoch.to_be_bytes());
        batch[53..57].copy_from_slice(&sequence.to_be_bytes());
    })
}

impl Client {
    pub(crate) async fn init(&mut self) -> i64 {
        let given = self.call(4, &InitProducerIdRequest::default().with_transactional_id(None)).await;
        assert_eq!((given.error_code, given.producer_epoch), (0, 0));
        *given.producer_id
    }

    pub(crate) async fn send_batch(&mut self, batch: &[u8]) -> Result<i64, Option<ResponseError>> {
        let answer = self.produce("t", batch).await;
        if answer.error_code == 0 {
            Ok(answer.base_offset)
        } else {
            Err(ResponseError::try_from_code(answer.error_code))
        }
    }
}

#[tokio::test]
async fn a_repeated_batch_is_stored_once_also_after_a_restart() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    let producer = client.init().await;
    assert_eq!(client.send_batch(&sent(producer, 0, 0, &["a", "b"])).await, Ok(0));
    assert_eq!(client.send_batch(&sent(producer, 0, 2, &["c"])).await, Ok(2));
    assert_eq!(client.send_batch(&sent(producer, 0, 0, &["a", "b"])).await, Ok(0));

    let world = world.restart().await;
    let mut client = world.client().await;
    assert_eq!(client.send_batch(&sent(producer, 0, 2, &["c"])).await, Ok(2));
    assert_eq!(client.send_batch(&sent(producer, 0, 3, &["d"])).await, Ok(3));
    assert_eq!(client.send_batch(&sent(producer, 0, 5, &["f"])).await, Err(Some(OutOfOrderSequenceNumber)));
    assert_eq!(client.send_batch(&sent(producer, 1, 0, &["e"])).await, Ok(4));
    assert_eq!(client.send_batch(&sent(producer, 0, 4, &["x"])).await, Err(Some(InvalidProducerEpoch)));
    assert_ne!(client.init().await, producer);
    let stored = values(&client.fetch("t", 0).await);
    let stored: Vec<&str> = stored.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(stored, ["a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn five_requests_in_flight_sent_again_after_a_lost_connection_are_stored_once() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    let producer = client.init().await;
    let batches: Vec<_> = (0..5).map(|at| sent(producer, 0, at, &[&at.to_string()])).collect();
    for batch in &batches {
        client.send(9, &producing("t", 0, batch)).await;
    }
    // The answers are lost with the connection; how many batches were stored is not known.
    drop(client);
    let mut client = world.client().await;
    let mut offsets = Vec::new();
    for batch in &batches {
        offsets.push(client.send_batch(batch).await.expect("stored, now or before"));
    }
    assert_eq!(offsets, [0, 1, 2, 3, 4]);
    assert_eq!(values(&client.fetch("t", 0).await).len(), 5);
}

#[tokio::test]
async fn producers_of_transactions_get_no_id() {
    let world = World::new().await;
    let mut client = world.client().await;
    for version in 0..=5 {
        let request = InitProducerIdRequest::default().with_transactional_id(Some(TransactionalId(text("x"))));
        let refused = client.call(version, &request).await;
        assert_eq!((refused.error_code, *refused.producer_id), (InvalidRequest.code(), -1), "version {version}");
        let given = client.call(version, &InitProducerIdRequest::default().with_transactional_id(None)).await;
        assert_eq!((given.error_code, *given.producer_id), (0, i64::from(version)), "version {version}");
    }
}
