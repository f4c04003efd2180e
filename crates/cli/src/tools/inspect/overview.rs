//! An overview of a database: its files, and the contents of its control file.

use std::io::Write;
use std::path::Path;

use quire::tools::{self, FileKind, InspectedSegment, Stretch, Survey, SurveyedFile};
use serde_json::{Value, json};

use crate::calendar;
use crate::failure::Result;
use crate::text::{bytes, grouped};

pub(super) fn print(out: &mut dyn Write, database: &Path, as_json: bool) -> Result {
    let (identity, survey) = tools::survey(database)?;
    let Survey { tail, durable, files, .. } = &survey;
    let known = |position: &Option<quire::Position>| position.map(|position| position.get());
    let (tail, durable) = (known(tail), known(durable));
    if as_json {
        let id = format!("{:032x}", identity.database);
        writeln!(out, "{}", json!({ "database": id, "shard": identity.shard, "tail": tail, "durable": durable }))?;
    } else {
        let told = |position: Option<u64>| position.map_or_else(|| "unknown".to_owned(), grouped);
        writeln!(out, "{identity}: appended up to record {}, synced up to {}", told(tail), told(durable))?;
    }
    for file in files {
        let value = describe(file, identity)?;
        match as_json {
            true => writeln!(out, "{value}")?,
            false => writeln!(out, "{}", line(&value))?,
        }
    }
    Ok(())
}

/// Describes a file.
fn describe(file: &SurveyedFile, identity: tools::Identity) -> Result<Value> {
    let mut value = json!({ "file": file.name, "bytes": file.bytes });
    match file.kind {
        FileKind::Segment(first) => {
            value["kind"] = json!("segment");
            value["first"] = json!(first.get());
            match tools::segment(&file.path, Some(identity)) {
                Ok(segment) => contents(&segment, &mut value),
                Err(error) => value["damage"] = json!(error.to_string()),
            }
        }
        FileKind::Checkpoint(position) => {
            value["kind"] = json!("checkpoint");
            value["position"] = json!(position.get());
            if tools::checkpoint(&file.path).map_or(true, |checkpoint| checkpoint.is_none()) {
                value["damage"] = json!("it does not verify");
            }
        }
        kind => value["kind"] = json!(format!("{kind:?}").split('(').next().unwrap_or_default().to_lowercase()),
    }
    Ok(value)
}

fn contents(segment: &InspectedSegment, value: &mut Value) {
    let (mut records, mut entries, mut used, mut last, mut time, mut damage) = (0, 0, 64, None, None, None);
    segment.stretches(|stretch| {
        match stretch {
            Stretch::Record(record) => {
                records += 1;
                entries += u64::from(record.entry_count());
                used += u64::from(record.length());
                last = Some(record.position().get());
                time = Some(record.time().as_micros() / 1000);
            }
            Stretch::Damaged { offset, message, .. } => {
                damage.get_or_insert(format!("byte {offset}: {message}"));
            }
            Stretch::End { .. } => {}
        }
        true
    });
    let begun_ms = segment.begun().as_micros() / 1000;
    let more = json!({ "last": last, "records": records, "entries": entries, "used_bytes": used, "begun_ms": begun_ms, "time_ms": time });
    for (name, number) in more.as_object().expect("an object") {
        value[name] = number.clone();
    }
    if let Some(bytes) = segment.unpacked_bytes() {
        value["unpacked_bytes"] = json!(bytes);
    }
    if let Some(damage) = damage {
        value["damage"] = json!(damage);
    }
}

fn line(of: &Value) -> String {
    let number = |name: &str| of[name].as_u64().map_or_else(|| "-".to_owned(), grouped);
    let name = of["file"].as_str().unwrap_or_default();
    let size = of["bytes"].as_u64().map_or_else(|| "-".to_owned(), bytes);
    let mut line = format!("{name:<36} {:<12} {size:>10}", of["kind"].as_str().unwrap_or_default());
    if of["kind"] == "segment" && !of["records"].is_null() {
        let used = of["used_bytes"].as_u64().map_or_else(|| "-".to_owned(), bytes);
        let time = of["time_ms"].as_i64().map_or_else(|| "-".to_owned(), calendar::rfc3339);
        let (last, records, entries) = (number("last"), number("records"), number("entries"));
        line += &format!("  up to record {last}: {records} records, {entries} entries, {used} used; last {time}");
        if of["unpacked_bytes"].is_u64() {
            line += "; packed";
        }
    }
    if let Some(damage) = of["damage"].as_str() {
        line += &format!("  damaged: {damage}");
    }
    line
}
