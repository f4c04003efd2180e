//! `librdkafka-load BROKER CASE TOPIC MESSAGES`: loads a broker, of whatever make, with the client that most programs have.
//!
//! A case prints one line of JSON, with the names that `quire bench --json` has. Messages have 256 bytes, and acks=all, which
//! is librdkafka's default; all that differs from its defaults stands in [`config`] and beside the case.

mod consume;
mod latencies;
mod produce;

use std::process::ExitCode;

use rdkafka::ClientConfig;

use crate::latencies::Measured;

/// The bytes of a message.
const MESSAGE_BYTES: usize = 256;

/// What went wrong, in words.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What a case is given.
struct Run {
    broker: String,
    topic: String,
    messages: u64,
}

impl Run {
    /// The client's defaults, but for how soon and how long it looks for a broker that is starting, and for a topic that comes
    /// to be with the first message, and for what it says of that.
    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.broker);
        config.set("topic.metadata.propagation.max.ms", "120000");
        config.set("reconnect.backoff.ms", "5").set("reconnect.backoff.max.ms", "5").set("log_level", "0");
        config
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [broker, case, topic, messages] => match messages.parse() {
            Ok(messages) => run(case, &Run { broker: broker.clone(), topic: topic.clone(), messages }),
            Err(_) => Err(format!("{messages} is no number of messages").into()),
        },
        _ => Err("librdkafka-load BROKER first|tasks-128|open-loop|consume|end-to-end TOPIC MESSAGES".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("librdkafka-load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(case: &str, run: &Run) -> Result<()> {
    let measured: Measured = match case {
        "first" => {
            let (measured, _client) = produce::first(run)?;
            // Whoever started this takes the time of the line.
            println!("{}", measured.json(case));
            return Ok(());
        }
        "tasks-128" => produce::tasks(run)?,
        "open-loop" => produce::open_loop(run)?,
        "consume" => consume::from_the_start(run)?,
        "end-to-end" => consume::end_to_end(run)?,
        other => return Err(format!("there is no case {other}").into()),
    };
    println!("{}", measured.json(case));
    Ok(())
}
