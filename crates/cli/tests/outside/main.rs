//! The parsers of outside input, with the corpora of the fuzz targets as they are and damaged.

#[path = "../../../../fuzz/replay.rs"]
mod replay;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");

/// Replays a directory. The parser accepts all of its files.
fn replayed(folder: &str, copies: usize, is_read: fn(&[u8]) -> bool) {
    let (mut read, mut refused) = (0, 0);
    replay::replay(&format!("{CORPUS}/{folder}"), &[], copies, |bytes, is_damaged| {
        let is_read = is_read(bytes);
        assert!(is_damaged || is_read, "what is sound is read");
        if is_read { read += 1 } else { refused += 1 }
    });
    assert!(read > 50 && refused > 200, "{folder}: {read} read, {refused} refused");
}

#[test]
fn arguments_of_any_bytes_are_a_command_or_a_usage_error() {
    replayed("arguments", 150, quire_cli::outside::arguments);
}

#[test]
fn a_file_of_any_bytes_is_settings_or_names_the_lines_of_its_problems() {
    replayed("settings", 300, quire_cli::outside::settings);
}

#[test]
fn any_line_of_bytes_is_an_event_or_an_error() {
    replayed("events", 500, quire_cli::outside::event);
}

#[test]
fn deeply_nested_settings_are_an_error() {
    for depth in [100, 1_000, 100_000] {
        let nested = ["log = ", &"[".repeat(depth), &"]".repeat(depth)].concat();
        assert!(!quire_cli::outside::settings(nested.as_bytes()), "{depth}");
    }
}

#[test]
fn a_deeply_nested_line_is_an_error() {
    for depth in [1_000, 1_000_000] {
        let nested = [r#"{"type":"A","tags":"#, &"[".repeat(depth), &"]".repeat(depth), "}"].concat();
        assert!(!quire_cli::outside::event(nested.as_bytes()), "{depth}");
        // User data is not parsed.
        let kept = nested.replace("tags", "data");
        quire_cli::outside::event(kept.as_bytes());
    }
}
