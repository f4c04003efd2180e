//! The payloads of messages.

/// Smallest payload, in bytes, that is a record in JSON.
const JSON_BYTES_MIN: usize = 256;

/// Number of different payloads. They stay in the processor's caches, like data that a program has
/// just made.
const VARIETY: u64 = 100;

/// Payloads of `bytes` bytes. Large ones are different JSON records, as services log them, with
/// similar compression ratios. Small ones repeat one letter, because no code interprets them.
#[derive(Debug)]
pub(super) struct Payloads {
    payloads: Vec<Vec<u8>>,
}

impl Payloads {
    pub(super) fn of(bytes: usize) -> Self {
        let payloads = match bytes < JSON_BYTES_MIN {
            true => vec![vec![b'q'; bytes]],
            false => (0..VARIETY).map(|number| json(number, bytes)).collect(),
        };
        Payloads { payloads }
    }

    /// The payload of message `number`.
    pub(super) fn get(&self, number: usize) -> &[u8] {
        &self.payloads[number % self.payloads.len()]
    }

    /// The first `count` payloads.
    pub(super) fn first(&self, count: usize) -> impl Iterator<Item = &[u8]> {
        (0..count).map(|number| self.get(number))
    }
}

fn json(number: u64, bytes: usize) -> Vec<u8> {
    // Splitmix64 (Steele, Lea and Flood, 2014): the same records every time.
    let mut state = number;
    let mut random = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    };
    let one_of = |number: u64, names: &[&'static str]| names[number as usize % names.len()];
    let level = one_of(random(), &["debug", "info", "info", "info", "warn", "error"]);
    let method = one_of(random(), &["GET", "GET", "GET", "POST", "PUT", "DELETE"]);
    let path = one_of(random(), &["/v1/orders", "/v1/orders/items", "/v1/customers", "/v1/payments", "/health"]);
    let mut line = format!(
        r#"{{"time":"2026-01-01T00:{:02}:{:02}.{:06}Z","level":"{level}","service":"checkout","host":"web-{:02}.example.com""#,
        number / 60 % 60,
        number % 60,
        random() % 1_000_000,
        random() % 40,
    );
    line += &format!(
        r#","trace_id":"{:016x}{:016x}","span_id":"{:016x}","request":{{"method":"{method}","path":"{path}","status":{},"bytes":{},"duration_us":{}}}"#,
        random(),
        random(),
        random(),
        one_of(random(), &["200", "200", "200", "201", "404", "500"]),
        random() % 100_000,
        random() % 1_000_000,
    );
    line += &format!(
        r#","user_agent":"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0","customer":{},"message":""#,
        random() % 100_000,
    );
    let words = ["order", "payment", "was", "accepted", "by", "the", "service", "after", "retry", "of", "item", "from"];
    let end = "\"}";
    while line.len() + end.len() < bytes {
        line += one_of(random(), &words);
        line.push(' ');
    }
    line.truncate(bytes - end.len());
    line += end;
    line.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_payload_is_json_of_its_length() {
        let payloads = Payloads::of(840);
        for payload in payloads.first(VARIETY as usize) {
            assert_eq!(payload.len(), 840);
            let record: serde_json::Value = serde_json::from_slice(payload).expect("JSON");
            assert_eq!(record["service"], "checkout");
        }
        assert_ne!(payloads.get(0), payloads.get(1));
    }

    #[test]
    fn a_payload_has_the_requested_size() {
        for bytes in [0, 1, 116] {
            assert_eq!(Payloads::of(bytes).get(3).len(), bytes);
        }
    }
}
