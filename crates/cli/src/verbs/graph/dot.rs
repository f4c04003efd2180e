//! A walk in the format of Graphviz.

use std::io::{self, Write};

use serde_json::Value;

use crate::text::without_controls;
use crate::verbs::print::{list, text};

/// Writes the visited blocks, and the edges between them.
pub(super) fn write(out: &mut dyn Write, walk: &Value) -> io::Result<()> {
    writeln!(out, "digraph quire {{")?;
    for visit in list(walk, "visits") {
        let id = text(visit, "id");
        let label = visit["name"].as_str().unwrap_or(&id);
        writeln!(out, "  {} [label={}];", quoted(&id), quoted(label))?;
    }
    for edge in list(walk, "edges") {
        let (source, target) = (quoted(&text(edge, "source")), quoted(&text(edge, "target")));
        writeln!(out, "  {source} -> {target} [label={}];", quoted(&text(edge, "type")))?;
    }
    writeln!(out, "}}")
}

/// Quotes a string for the dot language.
fn quoted(text: &str) -> String {
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{}\"", without_controls(&quoted))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_quoted_and_edges_are_arrows() {
        let walk = json!({
            "visits": [{ "id": "1", "name": "a \"b\"\n\\" }, { "id": "2", "name": null }],
            "edges": [{ "source": "1", "type": "to", "target": "2" }],
        });
        let mut out = Vec::new();
        write(&mut out, &walk).expect("written");
        let expected = r#"digraph quire {
  "1" [label="a \"b\"\n\\"];
  "2" [label="2"];
  "1" -> "2" [label="to"];
}
"#;
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }
}
