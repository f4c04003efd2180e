//! Rule `link`: a relative link in a page leads to a file of the checkout.
//!
//! It reads `[text](target)`, `![image](target)` and `[name]: target`, outside of code. It checks
//! neither the network nor headings.

use std::collections::BTreeSet;

use super::Violation;
use crate::workspace::SourceFile;

pub(super) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut known = BTreeSet::from([String::new()]);
    for file in files {
        let folders = file.path.match_indices('/').map(|(at, _)| file.path[..at].to_owned());
        known.extend(folders);
        known.insert(file.path.clone());
    }
    let mut violations = Vec::new();
    for page in files.iter().filter(|file| file.path.ends_with(".md")) {
        for (line, target) in targets(&page.text) {
            let path = target.split(['#', '?']).next().unwrap_or_default();
            let leads_elsewhere = path.is_empty() || path.contains("://") || path.starts_with("mailto:");
            if leads_elsewhere {
                continue;
            }
            let message = match resolve(&page.path, path) {
                Some(path) if known.contains(&path) => continue,
                Some(path) => format!("the link `{target}` leads to `{path}`, which does not exist"),
                None => format!("the link `{target}` leads out of the repository: a clone does not have it"),
            };
            violations.push(Violation::new("link", format!("{}:{line}", page.path), message));
        }
    }
    violations
}

/// The path from the root of `target` in `page`; `None` when it is not below the root.
fn resolve(page: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut names: Vec<&str> = folder.split('/').filter(|name| !name.is_empty()).collect();
    for name in target.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop()?;
            }
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}

/// The targets of all links, with their lines from 1.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            if let Some((_, target)) = line.strip_prefix('[').and_then(|line| line.split_once("]: ")) {
                found.extend(target.split_whitespace().next().map(|target| (index + 1, target)));
            }
            let outside_code = line.split('`').step_by(2);
            found.extend(outside_code.flat_map(inline_targets).map(|target| (index + 1, target)));
        }
    }
    found
}

/// A link's text may contain code, so that the target is in the next piece of the line: `[`a`](b)`.
fn inline_targets(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("](").filter_map(|(at, opening)| {
        let target = &text[at + opening.len()..];
        let target = &target[..target.find(')')?];
        target.split_whitespace().next()
    })
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[track_caller]
    fn check_page(text: &str, expect: &[&str]) {
        let files = [file("docs/page.md", text), file("docs/other.md", ""), file("README.md", "")];
        let places: Vec<_> = check(&files).into_iter().map(|violation| violation.place).collect();
        assert_eq!(places, expect);
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        check_page("[a](other.md) [b](../README.md#top) ![c](./other.md \"title\")\n[d]: other.md\n[e](../docs)", &[]);
        check_page("[a](https://example.org/x) [b](#here) [c](mailto:a@example.org) [`d`](other.md)", &[]);
    }

    #[test]
    fn links_in_code_are_ignored() {
        check_page("`[a](gone.md)`\n```\n[a](gone.md)\n```\n", &[]);
    }

    #[test]
    fn links_to_nothing_are_named_with_their_line() {
        check_page("one\n[a](gone.md)", &["docs/page.md:2"]);
        check_page("[`a`](gone.md) [b](other.md/)", &["docs/page.md:1"]);
        check_page("[a]: gone.md#there", &["docs/page.md:1"]);
        check_page("[a](../../shared/design.md)", &["docs/page.md:1"]);
        check_page("[a](/README.md)", &["docs/page.md:1"]);
    }
}
