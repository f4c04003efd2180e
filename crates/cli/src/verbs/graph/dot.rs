//! A walk in the format of Graphviz.

use std::io::{self, Write};

use serde_json::Value;

use super::lines::name;
use crate::verbs::print::{list, word};

/// Writes the visited blocks, and the edges between them.
pub(super) fn write(out: &mut dyn Write, walk: &Value) -> io::Result<()> {
    writeln!(out, "digraph quire {{")?;
    for visit in list(walk, "visits") {
        writeln!(out, "  {} [label={}];", quoted(&word(visit, "id")), quoted(&name(visit)))?;
    }
    for edge in list(walk, "edges") {
        let (source, target) = (quoted(&word(edge, "source")), quoted(&word(edge, "target")));
        writeln!(out, "  {source} -> {target} [label={}];", quoted(&word(edge, "type")))?;
    }
    writeln!(out, "}}")
}

/// Quotes a string for the dot language.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
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
