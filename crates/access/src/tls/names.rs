//! Rules that turn the certificate of a client into the name of a principal.
//!
//! ```text
//! uri:spiffe://example.org/{service} => svc-{service}
//! dns:{host}.clients.example.org     => {host}
//! cn:{name}                          => {name}
//! ```
//!
//! A field stands for letters, digits, `-` and `_`, as many as there are and at least one. After a
//! field comes the end, or a character that no field has. So a value matches in one way or in none,
//! in one pass. There are no wildcards, no regular expressions, and no rule by default.

use std::fmt;
use std::str::FromStr;

use super::certificate::CertificateNames;

/// The separator of a pattern and a name.
const ARROW: &str = "=>";

/// Most bytes of the name of a principal.
const NAME_BYTES_MAX: usize = 256;

/// A rule for names; see the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameRule {
    source: NameSource,
    pattern: Vec<TemplatePart>,
    name: Vec<TemplatePart>,
}

/// The part of a certificate that a rule reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameSource {
    /// A URI of the subject alternative names.
    Uri,
    /// A DNS name of the subject alternative names, in lower case.
    Dns,
    /// The common name of the subject.
    CommonName,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Field(String),
}

impl NameSource {
    const ALL: [NameSource; 3] = [NameSource::Uri, NameSource::Dns, NameSource::CommonName];

    fn prefix(self) -> &'static str {
        match self {
            NameSource::Uri => "uri:",
            NameSource::Dns => "dns:",
            NameSource::CommonName => "cn:",
        }
    }
}

impl NameRule {
    /// The name that the first matching rule gives to a certificate.
    pub(super) fn first_match(rules: &[NameRule], names: &CertificateNames) -> Option<String> {
        rules.iter().find_map(|rule| {
            let values = match rule.source {
                NameSource::Uri => &names.uris,
                NameSource::Dns => &names.dns,
                NameSource::CommonName => &names.common,
            };
            values.iter().find_map(|value| rule.apply(value))
        })
    }

    /// The name for a value; `None` when the value does not match.
    fn apply(&self, value: &str) -> Option<String> {
        let mut fields: Vec<(&str, &str)> = Vec::new();
        let mut rest = value;
        for piece in &self.pattern {
            match piece {
                TemplatePart::Text(text) => rest = rest.strip_prefix(text.as_str())?,
                TemplatePart::Field(field) => {
                    let end = rest.find(|char| !is_of_field(char)).unwrap_or(rest.len());
                    let (found, after) = rest.split_at(end);
                    if found.is_empty() {
                        return None;
                    }
                    fields.push((field, found));
                    rest = after;
                }
            }
        }
        if !rest.is_empty() {
            return None;
        }
        let pieces = self.name.iter().map(|piece| match piece {
            TemplatePart::Text(text) => text.as_str(),
            TemplatePart::Field(field) => {
                fields.iter().find(|(name, _)| name == field).expect("the pattern has the field").1
            }
        });
        let name: String = pieces.collect();
        (name.len() <= NAME_BYTES_MAX).then_some(name)
    }
}

/// Whether a field can stand for a character.
fn is_of_field(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '-' | '_')
}

impl FromStr for NameRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = || format!("expected uri:PATTERN => NAME, dns:PATTERN => NAME or cn:PATTERN => NAME, got {text:?}");
        let (pattern, name) = text.split_once(ARROW).ok_or_else(shape)?;
        let (pattern, name) = (pattern.trim(), name.trim());
        let source = NameSource::ALL.into_iter().find(|source| pattern.starts_with(source.prefix()));
        let source = source.ok_or_else(shape)?;
        let pattern = match (source, &pattern[source.prefix().len()..]) {
            (NameSource::Dns, pattern) => pieces(pattern, str::to_ascii_lowercase)?,
            (_, pattern) => pieces(pattern, str::to_owned)?,
        };
        let name = pieces(name, str::to_owned)?;
        for (index, piece) in pattern.iter().enumerate() {
            let TemplatePart::Field(field) = piece else { continue };
            let is_clear = match pattern.get(index + 1) {
                None => true,
                Some(TemplatePart::Text(text)) => !text.starts_with(is_of_field),
                Some(TemplatePart::Field(_)) => false,
            };
            if !is_clear {
                return Err(format!(
                    "after {{{field}}}, a pattern must end or have a character other than letters, digits, - and _"
                ));
            }
            if pattern[..index].contains(piece) {
                return Err(format!("a pattern has {{{field}}} twice"));
            }
        }
        for piece in &name {
            if let TemplatePart::Field(field) = piece
                && !pattern.contains(piece)
            {
                return Err(format!("the name has {{{field}}}, and the pattern does not"));
            }
        }
        Ok(NameRule { source, pattern, name })
    }
}

/// Splits a template into texts and fields.
fn pieces(template: &str, text_of: fn(&str) -> String) -> Result<Vec<TemplatePart>, String> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        let end = rest.find(['{', '}']).unwrap_or(rest.len());
        let (text, after) = rest.split_at(end);
        if let Some(control) = text.chars().find(|char| char.is_control()) {
            return Err(format!("a template can't have the control character {control:?}"));
        }
        if !text.is_empty() {
            pieces.push(TemplatePart::Text(text_of(text)));
        }
        let Some(field) = after.strip_prefix('{') else {
            match after {
                "" => break,
                _ => return Err(format!("a }} without {{ in {template:?}")),
            }
        };
        let (field, after) = field.split_once('}').ok_or_else(|| format!("a {{ without }} in {template:?}"))?;
        if field.is_empty() || !field.chars().all(is_of_field) {
            return Err(format!("a field must have letters, digits, - and _, got {{{field}}}"));
        }
        pieces.push(TemplatePart::Field(field.to_owned()));
        rest = after;
    }
    if pieces.is_empty() { Err("a template can't be empty".to_owned()) } else { Ok(pieces) }
}

/// `cn:{name} => {name}`.
impl fmt::Display for NameRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = |f: &mut fmt::Formatter<'_>, pieces: &[TemplatePart]| {
            pieces.iter().try_for_each(|piece| match piece {
                TemplatePart::Text(text) => f.write_str(text),
                TemplatePart::Field(field) => write!(f, "{{{field}}}"),
            })
        };
        f.write_str(self.source.prefix())?;
        write(f, &self.pattern)?;
        write!(f, " {ARROW} ")?;
        write(f, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(text: &str) -> NameRule {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[track_caller]
    fn check(text: &str, value: &str, expect: Option<&str>) {
        assert_eq!(rule(text).apply(value).as_deref(), expect, "{text} on {value}");
    }

    #[test]
    fn a_value_matches_as_a_whole() {
        check("uri:spiffe://acme/{s} => svc-{s}", "spiffe://acme/billing", Some("svc-billing"));
        check("uri:spiffe://acme/{s} => svc-{s}", "spiffe://acme/billing/x", None);
        check("uri:spiffe://acme/{s} => svc-{s}", "spiffe://acme/", None);
        check("uri:spiffe://acme/{s} => svc-{s}", "https://spiffe://acme/a", None);
        check("dns:{host}.clients.acme => {host}", "a-1.clients.acme", Some("a-1"));
        check("dns:{host}.clients.acme => {host}", "a.b.clients.acme", None);
        check("dns:{host}.clients.acme => {host}", "*.clients.acme", None);
        check("dns:{a}.{b} => {b}/{a}", "x.y", Some("y/x"));
        check("cn:admin => root", "admin", Some("root"));
        check("cn:admin => root", "Admin", None);
        check("cn:{n} => {n}", "a\0b", None);
        check("cn:{n} => {n}", "ä", None);
        check("cn:{n} => {n}", &"a".repeat(NAME_BYTES_MAX), Some(&"a".repeat(NAME_BYTES_MAX)));
        check("cn:{n} => {n}", &"a".repeat(NAME_BYTES_MAX + 1), None);
    }

    #[test]
    fn the_first_matching_rule_wins_and_without_a_match_there_is_no_name() {
        let names = CertificateNames {
            uris: vec!["https://x".to_owned(), "spiffe://acme/billing".to_owned()],
            dns: vec!["a.clients.acme".to_owned()],
            common: vec!["anna".to_owned()],
        };
        let rules = ["uri:spiffe://acme/{s} => svc-{s}", "dns:{h}.clients.acme => {h}", "cn:{n} => {n}"].map(rule);
        let first = |rules: &[NameRule]| NameRule::first_match(rules, &names);
        assert_eq!(first(&rules).as_deref(), Some("svc-billing"));
        assert_eq!(first(&rules[1..]).as_deref(), Some("a"));
        assert_eq!(first(&rules[2..]).as_deref(), Some("anna"));
        assert_eq!(first(&[]), None);
        assert_eq!(first(&[rule("cn:otto => otto")]), None);
    }

    #[test]
    fn an_unclear_rule_is_refused() {
        for (text, problem) in [
            ("cn:{n}", "expected uri:PATTERN => NAME"),
            ("{n} => {n}", "expected uri:PATTERN => NAME"),
            ("cn:{a}{b} => {a}", "after {a}, a pattern must end"),
            ("cn:{a}b => {a}", "after {a}, a pattern must end"),
            ("cn:{a}.{a} => {a}", "a pattern has {a} twice"),
            ("cn:{a} => {b}", "the name has {b}, and the pattern does not"),
            ("cn:{a => a", "a { without }"),
            ("cn:a} => a", "a } without {"),
            ("cn:{} => a", "a field must have letters"),
            ("cn:{.*} => a", "a field must have letters"),
            ("cn: => a", "a template can't be empty"),
            ("cn:{a} =>", "a template can't be empty"),
            ("cn:a\u{1}b => a", "a template can't have the control character"),
        ] {
            let error = text.parse::<NameRule>().expect_err(text);
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_rule_that_is_written_as_it_is_read_or_an_error(text in "(uri|dns|cn)?:?[a-z{}./ -]{0,12}(=>)?[a-z{}./ -]{0,12}") {
            if let Ok(rule) = text.parse::<NameRule>() {
                prop_assert_eq!(rule.to_string().parse(), Ok(rule));
            }
        }

        #[test]
        fn a_value_that_is_made_from_a_pattern_gives_its_fields_back(
            fields in prop::collection::vec("[A-Za-z0-9_-]{1,8}", 1..5),
            texts in prop::collection::vec("[./:@]{1,3}", 5),
            more in "[^A-Za-z0-9_-]{1,3}",
        ) {
            let (mut pattern, mut value, mut name) = (String::new(), String::new(), String::new());
            for (index, (field, text)) in fields.iter().zip(&texts).enumerate() {
                pattern += &format!("{text}{{f{index}}}");
                value += &format!("{text}{field}");
                name += &format!("{{f{index}}}|");
            }
            let rule: NameRule = format!("uri:{pattern} => {name}").parse().expect("a rule");
            let expected: String = fields.iter().map(|field| format!("{field}|")).collect();
            prop_assert_eq!(rule.apply(&value), Some(expected));
            // Whatever follows, it is not part of the pattern.
            prop_assert_eq!(rule.apply(&(value + &more)), None);
        }

        #[test]
        fn any_value_gives_a_short_name_of_the_characters_of_fields_or_none(value in any::<String>()) {
            if let Some(name) = rule("cn:{n} => {n}").apply(&value) {
                prop_assert!(name == value && name.chars().all(is_of_field) && name.len() <= NAME_BYTES_MAX);
            }
        }
    }
}
