//! The pattern of `tags MATCH`: tags joined by spaces, and alternatives joined by `OR`.
//!
//! For example, `plane:N1 gate:B1 OR plane:N2` selects rows with both of the first tags, and rows
//! with the last one. A tag with a space stands in double quotes.

/// Splits a pattern into its alternatives, each a list of tags.
///
/// # Errors
/// When an alternative has no tag, or a quote does not end.
pub(crate) fn alternatives(pattern: &str) -> Result<Vec<Vec<String>>, String> {
    let mut found: Vec<Vec<String>> = vec![Vec::new()];
    let mut rest = pattern.trim_start();
    while !rest.is_empty() {
        let tags = found.last_mut().expect("it begins with one");
        if let Some(quoted) = rest.strip_prefix('"') {
            let (tag, behind) = quoted.split_once('"').ok_or_else(|| format!("a quote in {pattern:?} has no end"))?;
            tags.push(tag.to_owned());
            rest = behind.trim_start();
            continue;
        }
        let (word, behind) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        match word {
            "OR" => found.push(Vec::new()),
            tag => tags.push(tag.to_owned()),
        }
        rest = behind.trim_start();
    }
    if found.iter().any(Vec::is_empty) {
        return Err(format!("each alternative of MATCH {pattern:?} has at least one tag"));
    }
    Ok(found)
}

/// Returns the alternatives of several patterns joined by AND.
///
/// # Errors
/// Those of [`alternatives`], and more than 64 alternatives.
pub(crate) fn joined(patterns: &[String]) -> Result<Vec<Vec<String>>, String> {
    let mut joined: Vec<Vec<String>> = vec![Vec::new()];
    for pattern in patterns {
        let found = alternatives(pattern)?;
        if joined.len() * found.len() > 64 {
            return Err("the patterns of MATCH have more than 64 alternatives together".to_owned());
        }
        let both = |left: &Vec<String>| found.iter().map(move |right| [&left[..], right].concat()).collect::<Vec<_>>();
        joined = joined.iter().flat_map(both).collect();
    }
    for tags in &mut joined {
        tags.sort_unstable();
        tags.dedup();
    }
    Ok(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_tags_with_alternatives() {
        assert_eq!(alternatives(" a  b OR \"c d\" ").expect("valid"), [vec!["a", "b"], vec!["c d"]]);
        for invalid in ["", "  ", "a OR", "OR a", "a OR OR b", "\"a"] {
            assert!(alternatives(invalid).is_err(), "{invalid:?}");
        }
        let both = joined(&["a OR b".to_owned(), "c".to_owned()]).expect("valid");
        assert_eq!(both, [vec!["a", "c"], vec!["b", "c"]]);
        assert_eq!(joined(&[]).expect("valid"), [Vec::<String>::new()]);
        assert!(joined(&vec!["a OR b".to_owned(); 7]).is_err());
    }
}
