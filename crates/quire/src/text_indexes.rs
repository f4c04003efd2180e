//! The definitions of text indexes: events of one store of the database.
//!
//! They are part of the log, so a backup has them and a restored database builds the same indexes
//! again.

use crate::database::Database;
use crate::events::{Condition, EventPosition, NAME_BYTES_MAX, NewEvent, Query, ReadOptions};
use crate::{Error, ErrorKind, Result};
use quire_model::{Operation, Resource, ResourceKind};

/// The event store of the definitions of text indexes.
pub const INDEX_STORE: &str = "quire/indexes";

/// The most text indexes of a database.
pub const TEXT_INDEXES_MAX: usize = 32;

/// The most paths of a text index.
pub const TEXT_PATHS_MAX: usize = 8;

/// The most bytes of a path of a text index.
pub const TEXT_PATH_BYTES_MAX: usize = 256;

/// The types of the events about definitions.
const CREATED: &str = "TextIndexCreated";
const DELETED: &str = "TextIndexDeleted";

/// How often a change of the definitions is decided again when another change came first.
const ATTEMPTS: usize = 5;

/// The definition of a text index over an event store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextIndex {
    /// The position of its event in [`INDEX_STORE`]. No other index ever has it.
    pub number: EventPosition,
    /// The name, by default that of the store.
    pub name: String,
    /// The event store.
    pub store: String,
    /// The JSON paths of the indexed text in the data of events, such as `$.note`. `$` is the whole
    /// data, which then need not be JSON.
    pub paths: Vec<String>,
}

impl TextIndex {
    /// Returns the beginning of the names of its files.
    pub fn file_prefix(&self) -> String {
        format!("{:020}-", self.number.get())
    }

    /// Returns whether a file of [`Database::index_directory`] belongs to it.
    pub fn has_file(&self, name: &str) -> bool {
        name.starts_with(&self.file_prefix())
    }

    /// Returns the definition in an event.
    fn of(number: EventPosition, data: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(data).ok()?.lines().map(str::to_owned);
        let (name, store) = (lines.next()?, lines.next()?);
        Some(TextIndex { number, name, store, paths: lines.collect() })
    }
}

impl Database {
    /// Returns the definitions of the text indexes over stores that the client may read.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`], [`ErrorKind::Failed`].
    ///
    /// # Example
    /// ```
    /// use quire::events::NewEvent;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// db.events("orders").append([NewEvent::new("Placed").data(r#"{"note":"fragile"}"#)])?;
    /// db.create_text_index("notes", "orders", &["$.note"])?;
    /// let indexes = db.text_indexes()?;
    /// assert_eq!((&*indexes[0].name, &*indexes[0].store), ("notes", "orders"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn text_indexes(&self) -> Result<Vec<TextIndex>> {
        let (mut indexes, _) = self.defined_indexes()?;
        self.read_published_permitted(|view| {
            indexes.retain(|index| view.permits(ResourceKind::Store, &index.store, Operation::Read));
        })?;
        Ok(indexes)
    }

    /// Defines a text index over an event store. A search builds it: see the crate `quire-sql`.
    ///
    /// A client needs the permissions to read the store, and to read and write [`INDEX_STORE`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a name that is taken, a path that is too long, and more than
    /// [`TEXT_INDEXES_MAX`] indexes. [`ErrorKind::NotFound`] for an unknown store.
    /// [`ErrorKind::NotPermitted`]. The errors of [`Database::commit`].
    pub fn create_text_index(&self, name: &str, store: &str, paths: &[&str]) -> Result<TextIndex> {
        let resource = Resource::new(ResourceKind::Store, store);
        let is_known = self.read_published_for(resource, Operation::Read, |view| view.events.store(store).is_some())?;
        if !is_known {
            return Err(Error::new(ErrorKind::NotFound, format!("unknown event store {store:?}")));
        }
        check_definition(name, paths)?;
        let data = [&[name, store], paths].concat().join("\n");
        self.define(CREATED, name, data, |indexes| {
            if indexes.iter().any(|index| index.name == name) {
                let message = format!("text index {name:?} already exists: delete it first, or choose another name");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            if indexes.len() >= TEXT_INDEXES_MAX {
                let message = format!("the database has {TEXT_INDEXES_MAX} text indexes, the most: delete one first");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            Ok(())
        })?;
        let found = self.text_indexes()?.into_iter().find(|index| index.name == name);
        found.ok_or_else(|| unknown(name))
    }

    /// Deletes the definition of a text index. A client needs the permissions of
    /// [`Database::create_text_index`].
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an unknown index; [`ErrorKind::NotPermitted`]. The errors of
    /// [`Database::commit`].
    pub fn delete_text_index(&self, name: &str) -> Result<()> {
        if !self.text_indexes()?.iter().any(|index| index.name == name) {
            return Err(unknown(name));
        }
        self.define(DELETED, name, name.to_owned(), |indexes| match indexes.iter().any(|index| index.name == name) {
            true => Ok(()),
            false => Err(unknown(name)),
        })
    }

    /// Commits an event about definitions that `check` permits.
    fn define(
        &self,
        event_type: &str,
        name: &str,
        data: String,
        check: impl Fn(&[TextIndex]) -> Result<()>,
    ) -> Result<()> {
        let mut attempts = 0;
        loop {
            let (indexes, head) = self.defined_indexes()?;
            check(&indexes)?;
            let event = NewEvent::new(event_type).tag(name).data(data.as_str());
            let unchanged = Condition::fail_if_matches_after(Query::all(), head);
            attempts += 1;
            match self.events(INDEX_STORE).append_if([event], [unchanged]) {
                Err(error) if error.kind() == ErrorKind::Refused && attempts < ATTEMPTS => {}
                done => return done.map(drop),
            }
        }
    }

    /// Returns all definitions, and the position of the last event about them.
    fn defined_indexes(&self) -> Result<(Vec<TextIndex>, EventPosition)> {
        let mut indexes: Vec<TextIndex> = Vec::new();
        let head = self.unguarded().events(INDEX_STORE).visit(&Query::all(), ReadOptions::default(), |event| {
            match event.event_type {
                CREATED => {
                    let index = TextIndex::of(event.position, event.data);
                    let is_new = |index: &TextIndex| !indexes.iter().any(|other| other.name == index.name);
                    indexes.extend(index.filter(is_new));
                }
                DELETED => indexes.retain(|index| index.name.as_bytes() != event.data),
                _ => {}
            }
        })?;
        indexes.truncate(TEXT_INDEXES_MAX);
        Ok((indexes, head))
    }
}

/// Returns the error about an index that does not exist, or that the client may not search.
fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("unknown text index {name:?}"))
}

fn check_definition(name: &str, paths: &[&str]) -> Result<()> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-' | '/');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(allowed) {
        let message =
            format!("the name of a text index has 1 to 255 letters, digits, '.', '_', '-' and '/', unlike {name:?}");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    if paths.is_empty() || paths.len() > TEXT_PATHS_MAX {
        let message = format!("a text index has 1 to {TEXT_PATHS_MAX} paths, not {}", paths.len());
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    match paths.iter().find(|path| path.len() > TEXT_PATH_BYTES_MAX || path.contains(['\n', '\r', '\0'])) {
        Some(path) => {
            let message = format!("a path has one line and at most {TEXT_PATH_BYTES_MAX} bytes, unlike {path:?}");
            Err(Error::new(ErrorKind::Invalid, message))
        }
        None => Ok(()),
    }
}
