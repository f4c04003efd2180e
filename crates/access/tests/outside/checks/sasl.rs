//! An exchange of SASL: the first line is the mechanism, each further one a message of the client.

use std::sync::OnceLock;

use quire::{Database, Durability};
use quire_access::sasl::{SaslExchange, SaslMechanism, SaslSecret, SaslStep};
use tempfile::TempDir;

/// The database without users. Any user gets the same challenge in each run.
fn database() -> &'static Database {
    static DATABASE: OnceLock<(TempDir, Database)> = OnceLock::new();
    let made = DATABASE.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let builder = Database::builder(directory.path()).durability(Durability::Os).segment_bytes(1 << 20);
        let database = builder.open().expect("a database");
        (directory, database)
    });
    &made.1
}

/// Whether the first message was answered; `None` without a mechanism. No client is authenticated.
pub(crate) fn check(bytes: &[u8]) -> Option<bool> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let mechanism = std::str::from_utf8(lines.next()?).ok().and_then(SaslMechanism::of_name)?;
    let mut exchange = SaslExchange::new(mechanism, [7; 24]);
    let (rules, now, secret) = (database().access().rules(), database().now(), SaslSecret::new([1; 32]));
    let mut is_answered = false;
    for (number, message) in lines.enumerate() {
        match exchange.answer(message, &rules, now, &secret) {
            Ok(step) => {
                assert!(!matches!(step, SaslStep::Authenticated { .. }), "{step:?}");
                is_answered |= number == 0;
            }
            Err(_) => {
                // The exchange has ended.
                assert!(exchange.answer(message, &rules, now, &secret).is_err());
                break;
            }
        }
    }
    Some(is_answered)
}
