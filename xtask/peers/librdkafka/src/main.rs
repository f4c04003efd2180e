//! `librdkafka-load BROKER CASE TOPIC MESSAGES`: loads a broker of any kind with the client that
//! most programs use.
//!
//! A case prints one line of JSON, with the names of `quire-bench --json`. Messages have 256 bytes,
//! and acks=all, which is librdkafka's default. All other settings that differ from the defaults
//! are in [`config`] and next to the case.

mod consume;
mod latencies;
mod produce;

use std::process::ExitCode;

use rdkafka::ClientConfig;

use crate::latencies::Measured;

/// The bytes of a message.
const MESSAGE_BYTES: usize = 256;

/// An error, in words.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The arguments of a case.
struct Run {
    broker: String,
    topic: String,
    messages: u64,
}

impl Run {
    /// The client's defaults, except for three settings: the retry intervals for a broker that is
    /// starting, those for a topic that the first message creates, and the logging of both.
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
            // The process that started this one measures the time of the line.
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
