//! A reader of XML that keeps one event in memory, with limits on what a file can ask for.
//!
//! It is as strict as a file of other tools needs: elements are balanced, references resolve, and
//! the text is that of XML. Declarations of document types are refused, and so are elements with
//! too many attributes or nested too deeply: their cost would exceed their bytes.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// Maximum number of attributes of an element.
pub(super) const ATTRIBUTES_MAX: usize = 64;

/// Maximum depth of elements.
pub(super) const DEPTH_MAX: usize = 256;

/// An element, as its start tag describes it.
#[derive(Debug)]
pub(super) struct Element {
    /// The name without its prefix: files without a namespace are common.
    pub(super) name: String,
    /// The prefix; empty without one.
    prefix: String,
    /// The names with their prefixes, and the values.
    attributes: Vec<(String, String)>,
}

impl Element {
    /// Returns the value of an attribute without a namespace.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Returns the namespace that the element itself declares for its name.
    pub(super) fn namespace(&self) -> Option<&str> {
        let declaration = if self.prefix.is_empty() { "xmlns".to_owned() } else { format!("xmlns:{}", self.prefix) };
        self.attribute(&declaration)
    }
}

/// A part of a document.
#[derive(Debug)]
pub(super) enum XmlEvent<'t> {
    /// An element begins.
    Start(Element),
    /// Text of the innermost open element; one text may come in several pieces.
    Text(Cow<'t, str>),
    /// The innermost open element ends.
    End,
}

/// A failure: the byte where it was found, and a description.
#[derive(Debug)]
pub(super) struct XmlError {
    pub(super) at: usize,
    pub(super) message: String,
}

/// See the module.
pub(super) struct XmlReader<'t> {
    text: &'t str,
    reader: Reader<&'t [u8]>,
    depth: usize,
    /// Whether the root element was read.
    has_root: bool,
}

impl<'t> XmlReader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let mut reader = Reader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        XmlReader { text, reader, depth: 0, has_root: false }
    }

    /// Returns the next event and the byte at which it begins; `None` at the end of the document.
    ///
    /// # Errors
    /// [`XmlError`].
    pub(super) fn next(&mut self) -> Result<Option<(usize, XmlEvent<'t>)>, XmlError> {
        loop {
            let at = self.position();
            let event = self.reader.read_event().map_err(|error| {
                let at = usize::try_from(self.reader.error_position()).unwrap_or(at);
                XmlError { at: at.min(self.text.len()), message: error.to_string() }
            })?;
            let wrong = |message: String| XmlError { at, message };
            let event = match event {
                Event::Start(start) => XmlEvent::Start(self.start(&start).map_err(wrong)?),
                Event::End(_) => {
                    self.depth -= 1;
                    XmlEvent::End
                }
                Event::Text(_) => {
                    let text = &self.text[at..self.position()];
                    if self.depth == 0 && text.trim_matches(WHITESPACE).is_empty() {
                        continue;
                    }
                    XmlEvent::Text(normalized(text, "\n").map_err(wrong)?)
                }
                Event::CData(_) => {
                    let section = &self.text[at..self.position()];
                    let text = section.strip_prefix("<![CDATA[").and_then(|text| text.strip_suffix("]]>"));
                    XmlEvent::Text(normalized(text.unwrap_or_default(), "\n").map_err(wrong)?)
                }
                Event::GeneralRef(_) => {
                    let reference = &self.text[at..self.position()];
                    XmlEvent::Text(Cow::Owned(resolved(reference).map_err(wrong)?.to_string()))
                }
                Event::DocType(_) => return Err(wrong("a document type declaration is not supported".to_owned())),
                Event::Decl(_) | Event::PI(_) | Event::Comment(_) => continue,
                Event::Eof if self.depth > 0 => return Err(wrong("an element is not closed".to_owned())),
                Event::Eof if !self.has_root => return Err(wrong("there is no root element".to_owned())),
                Event::Eof => return Ok(None),
                Event::Empty(_) => unreachable!("empty elements are expanded"),
            };
            if self.depth == 0 && matches!(event, XmlEvent::Text(_)) {
                return Err(wrong("there is text outside of the root element".to_owned()));
            }
            return Ok(Some((at, event)));
        }
    }

    fn position(&self) -> usize {
        usize::try_from(self.reader.buffer_position()).unwrap_or(usize::MAX).min(self.text.len())
    }

    fn start(&mut self, start: &BytesStart<'_>) -> Result<Element, String> {
        if self.depth == 0 && self.has_root {
            return Err("there is a second root element".to_owned());
        }
        if self.depth == DEPTH_MAX {
            return Err(format!("elements are nested more than {DEPTH_MAX} deep"));
        }
        (self.depth, self.has_root) = (self.depth + 1, true);
        let name = start.name();
        let (prefix, name) = name.as_ref().split_once(':').unwrap_or(("", name.as_ref()));
        let mut attributes = Vec::new();
        for attribute in start.attributes() {
            if attributes.len() == ATTRIBUTES_MAX {
                return Err(format!("the element has more than {ATTRIBUTES_MAX} attributes"));
            }
            let attribute = attribute.map_err(|error| error.to_string())?;
            attributes.push((attribute.key.as_ref().to_owned(), attribute_value(&attribute.value)?));
        }
        Ok(Element { name: name.to_owned(), prefix: prefix.to_owned(), attributes })
    }
}

/// The white space of XML.
const WHITESPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// Returns text with its line ends as `line_end`, after a check of its characters.
fn normalized<'t>(text: &'t str, line_end: &str) -> Result<Cow<'t, str>, String> {
    if let Some(invalid) = text.chars().find(|character| !is_allowed(*character)) {
        return Err(format!("invalid character {invalid:?}"));
    }
    Ok(match text.contains('\r') {
        true => Cow::Owned(text.replace("\r\n", line_end).replace('\r', line_end)),
        false => Cow::Borrowed(text),
    })
}

/// Returns the value of an attribute: white space as blanks, and references resolved.
fn attribute_value(raw: &str) -> Result<String, String> {
    let raw = normalized(raw, "\n")?;
    let mut value = String::with_capacity(raw.len());
    let mut rest = &*raw;
    while let Some(at) = rest.find('&') {
        let end = rest[at..].find(';').ok_or("a reference is not closed")?;
        value.extend(blanks(&rest[..at]));
        value.push(resolved(&rest[at..=at + end])?);
        rest = &rest[at + end + 1..];
    }
    value.extend(blanks(rest));
    Ok(value)
}

fn blanks(text: &str) -> impl Iterator<Item = char> {
    text.chars().map(|character| if WHITESPACE.contains(&character) { ' ' } else { character })
}

/// Returns the character of a reference such as `&lt;` or `&#10;`.
fn resolved(reference: &str) -> Result<char, String> {
    let name = reference.trim_start_matches('&').trim_end_matches(';');
    let number = name.strip_prefix('#').map(|digits| match digits.strip_prefix('x') {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => digits.parse(),
    });
    let character = match (name, number) {
        ("lt", _) => Some('<'),
        ("gt", _) => Some('>'),
        ("amp", _) => Some('&'),
        ("apos", _) => Some('\''),
        ("quot", _) => Some('"'),
        (_, Some(Ok(number))) => char::from_u32(number).filter(|character| is_allowed(*character)),
        _ => None,
    };
    character.ok_or_else(|| format!("unknown reference {reference}"))
}

/// Whether XML 1.0 allows the character.
fn is_allowed(character: char) -> bool {
    !matches!(character, '\u{0}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a document as text, or its error.
    fn events(text: &str) -> String {
        let mut reader = XmlReader::new(text);
        let mut out = String::new();
        loop {
            match reader.next() {
                Ok(None) => return out,
                Ok(Some((_, XmlEvent::Start(element)))) => {
                    let attributes = element.attributes.iter().map(|(name, value)| format!(" {name}={value:?}"));
                    out += &format!("<{}{}>", element.name, attributes.collect::<String>());
                }
                Ok(Some((_, XmlEvent::Text(text)))) => out += &text.escape_debug().to_string(),
                Ok(Some((_, XmlEvent::End))) => out += "</>",
                Err(error) => return format!("{out} {}: {}", error.at, error.message),
            }
        }
    }

    #[test]
    fn elements_text_and_references_are_read() {
        let text =
            "<?xml version='1.0'?><!-- c --><a:b x='1&amp;\n2' y=\"&#x41;&quot;\"><c/>t&lt;\r\nu<![CDATA[<&]]></a:b>\n";
        assert_eq!(events(text), r#"<b x="1& 2" y="A\""><c></>t<\nu<&</>"#);
    }

    #[test]
    fn documents_that_are_not_well_formed_are_refused() {
        for (text, part) in [
            ("", "no root"),
            ("x", "outside"),
            ("<a/>x", "outside"),
            ("<a/><b/>", "second root"),
            ("<a>", "not closed"),
            ("<a></b>", "`</b>`"),
            ("<a x='1' x='2'/>", "duplicate"),
            ("<a x='&nope;'/>", "&nope;"),
            ("<a x='&lt'/>", "not closed"),
            ("<a>&nope;</a>", "&nope;"),
            ("<a>&#0;</a>", "&#0;"),
            ("<a>&#xd800;</a>", "&#xd800;"),
            ("<a>\u{1}</a>", "invalid character"),
            ("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "document type"),
        ] {
            assert!(events(text).contains(part), "{text:?}: {}", events(text));
        }
    }

    #[test]
    fn attributes_and_depth_are_limited() {
        let attributes = |count: usize| (0..count).map(|number| format!(" a{number}=''")).collect::<String>();
        assert!(!events(&format!("<a{}/>", attributes(ATTRIBUTES_MAX))).contains("more than"));
        let many = format!("<a{}/>", attributes(200_000));
        assert!(events(&many).contains("more than 64 attributes"));
        let deep = |depth: usize| "<a>".repeat(depth) + &"</a>".repeat(depth);
        assert!(!events(&deep(DEPTH_MAX)).contains("deep"));
        assert!(events(&deep(DEPTH_MAX + 1)).contains("more than 256 deep"));
    }
}
