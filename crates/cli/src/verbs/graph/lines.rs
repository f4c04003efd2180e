//! Blocks and edges as lines for people.

use serde_json::Value;

use crate::text::on_one_line;
use crate::verbs::print::{bytes, time, word, words};

/// The name of a block, or its id when it has no name.
pub(super) fn name(block: &Value) -> String {
    block["name"].as_str().map_or_else(|| word(block, "id"), |name| on_one_line(name).into_owned())
}

/// An edge as an arrow, and the block at its other end.
pub(super) fn neighbour(neighbour: &Value) -> String {
    format!("{} {}", arrow(neighbour), name(neighbour))
}

/// The edge that leads to a block.
pub(super) fn arrow(to: &Value) -> String {
    let edge_type = word(to, "type");
    if to["end"] == "target" { format!("--{edge_type}->") } else { format!("<-{edge_type}--") }
}

/// A visited block, indented by its distance.
pub(super) fn visit(visit: &Value) -> String {
    let depth = visit["depth"].as_u64().unwrap_or_default().min(40) as usize;
    let arrow = if visit["from"].is_null() { String::new() } else { format!("{} ", arrow(visit)) };
    format!("{}{arrow}{}", "  ".repeat(depth), name(visit))
}

/// A path between two blocks.
pub(super) fn way(way: &Value) -> String {
    let step = |visit: &Value| {
        if visit["from"].is_null() { name(visit) } else { format!(" {} {}", arrow(visit), name(visit)) }
    };
    way.as_array().into_iter().flatten().map(step).collect()
}

/// A whole block.
pub(super) fn block(block: &Value) -> String {
    let lines = [
        name(block),
        format!("  id        {}", word(block, "id")),
        format!("  kind      {}", word(block, "kind")),
        format!("  source    {}", word(block, "source")),
        format!("  version   {}, put at {}", word(block, "version"), time(block, "time_ms")),
        format!("  tags      {}", words(block, "tags")),
        format!("  metadata  {}", bytes(block, "metadata")),
        format!("  content   {}", bytes(block, "content")),
    ];
    lines.join("\n")
}

/// The main facts of a block, on one line.
pub(super) fn short(block: &Value) -> String {
    let line = format!(
        "{:<32} {:<12} v{:<5} {}",
        name(block),
        word(block, "kind"),
        word(block, "version"),
        words(block, "tags")
    );
    line.trim_end().to_owned()
}
