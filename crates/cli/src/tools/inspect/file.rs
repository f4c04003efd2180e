//! Files other than segments: an index, a checkpoint, the control file, the statistics page.

use std::io::Write;
use std::path::Path;

use quire::tools::{self, FileKind, NumberedTag};
use serde_json::{Value, json};

use crate::failure::{CommandError, Result};
use crate::text::bytes;

pub(super) fn print(out: &mut dyn Write, path: &Path, as_json: bool) -> Result {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match FileKind::of(name) {
        FileKind::Checkpoint(_) => checkpoint(out, path, as_json),
        FileKind::Index(_) => index(out, path, as_json),
        FileKind::Control | FileKind::Statistics => words(out, path, as_json),
        _ => {
            let what =
                "quire inspect reads directories, segments (.log), indexes (.idx), checkpoints, control and statistics";
            Err(CommandError::new(format!("{} is of another kind: {what}", path.display())))
        }
    }
}

fn checkpoint(out: &mut dyn Write, path: &Path, as_json: bool) -> Result {
    let Some(checkpoint) = tools::checkpoint(path)? else {
        return Err(CommandError::new(format!(
            "{} is not a checkpoint, or damaged: its checksum is wrong",
            path.display()
        )));
    };
    let sections = tools::checkpoint_sections(&checkpoint.payload).unwrap_or_default();
    let (position, crc) = (checkpoint.mark.position.get(), format!("{:08x}", checkpoint.mark.chain));
    if as_json {
        let sections: Vec<Value> = sections
            .iter()
            .map(|(model, bytes)| json!({ "model": tools::model_name(*model), "bytes": bytes }))
            .collect();
        writeln!(
            out,
            "{}",
            json!({ "position": position, "crc": crc, "bytes": checkpoint.payload.len(), "models": sections })
        )?;
        return Ok(());
    }
    writeln!(
        out,
        "the models' state after record {position} with crc {crc}: {}",
        bytes(checkpoint.payload.len() as u64)
    )?;
    for (model, size) in sections {
        writeln!(out, "  {:<8} {:>10}", tools::model_name(model), bytes(size))?;
    }
    Ok(())
}

fn index(out: &mut dyn Write, path: &Path, as_json: bool) -> Result {
    let Some(index) = tools::index(path)? else {
        let what = "is not an index, or damaged: its checksum is wrong; opening the database rebuilds lost indexes";
        return Err(CommandError::new(format!("{} {what}", path.display())));
    };
    let tag = |numbered: &NumberedTag| tools::tag_text(numbered.tag());
    let (first, last) = (index.first.get(), index.end.get() - 1);
    if as_json {
        let numbered = index.numbered.iter().map(|numbered| {
            let (first, next) = (numbered.first.get(), numbered.next.get());
            json!({ "tag": tag(numbered), "first": first, "next": next, "position": numbered.position.get() })
        });
        let numbered: Vec<Value> = numbered.collect();
        writeln!(
            out,
            "{}",
            json!({
                "first": first, "last": last, "time_us": index.time.as_micros(), "records": index.records,
                "entries": index.entries, "tags": index.tags, "filter_bytes": index.filter_bytes,
                "compacted": index.compacted, "numbered": numbered,
            })
        )?;
        return Ok(());
    }
    let compacted = if index.compacted { ", compacted" } else { "" };
    writeln!(
        out,
        "the index of records {first} to {last}{compacted}: {} records, {} entries, {} tags, a filter of {}",
        index.records,
        index.entries,
        index.tags,
        bytes(index.filter_bytes)
    )?;
    for numbered in &index.numbered {
        let (first, next) = (numbered.first.get(), numbered.next.get());
        writeln!(
            out,
            "  {}: numbers from {first}, before {next}; from record {}",
            tag(numbered),
            numbered.position.get()
        )?;
    }
    Ok(())
}

fn words(out: &mut dyn Write, path: &Path, as_json: bool) -> Result {
    // A sealed word of the control file has its number in the low 48 bits.
    let sealed = path.ends_with("control");
    for (index, word) in tools::words(path)? {
        let number = if sealed { word & ((1 << 48) - 1) } else { word };
        match as_json {
            true => {
                writeln!(out, "{}", json!({ "word": index, "hex": format!("{word:016x}"), "number": number }))?;
            }
            false => writeln!(out, "word {index:>4}  {word:016x}  {number:>16}")?,
        }
    }
    Ok(())
}
