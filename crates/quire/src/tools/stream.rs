//! A backup as one stream of bytes, for another machine: a tar archive (POSIX ustar) of the files
//! of a backup.
//!
//! ```text
//! quire.streamed, shard-0000/00000000000000000001.log … shard-0000/….checkpoint, quire.backup,
//! two empty blocks
//! ```
//! `quire.backup` is the last file, so a stream that was cut is no backup. `quire.streamed` is the
//! first one, and empty: a directory with it and without `quire.backup` is no database either. The
//! sender verifies each record, and a restore verifies each byte of what arrived.

use std::io::{self, Read};
use std::path::Path;

use quire_log::{Access, Gradual, Storage};
use quire_model::{Operation, Resource, Timestamp};

use super::backup::{BackupCopy, BackupTarget, commit, make_empty};
use super::machine;
use super::manifest::{Backup, BackupFile, NAME, STREAMED, begin, is_plain};
use crate::administration::report_backup;
use crate::meta::Meta;
use crate::{Database, Error, ErrorKind, Result};

/// The size of a block: a header has one, and each file ends at the end of one.
const BLOCK: usize = 512;

/// The fields of a header.
const FIELD_NAME: std::ops::Range<usize> = 0..100;
const FIELD_MODE: std::ops::Range<usize> = 100..108;
const FIELD_SIZE: std::ops::Range<usize> = 124..136;
const FIELD_TIME: std::ops::Range<usize> = 136..148;
const FIELD_CHECKSUM: std::ops::Range<usize> = 148..156;
const FIELD_KIND: usize = 156;
const FIELD_MAGIC: std::ops::Range<usize> = 257..265;

/// POSIX ustar, version 0.
const MAGIC: &[u8; 8] = b"ustar\x0000";

/// The kind of a plain file.
const PLAIN: u8 = b'0';

/// The largest size that eleven octal digits have. A larger one is binary.
const OCTAL_MAX: u64 = (1 << 33) - 1;

/// Marks a binary number.
const BINARY: u8 = 0x80;

/// The largest list of files that is read.
const LIST_BYTES_MAX: u64 = 256 << 20;

/// The bytes of a file that are read at once.
const PIECE_BYTES: usize = 1 << 20;

/// Where a streamed backup goes.
pub trait BackupSink {
    /// Takes the memory for a file of `bytes` bytes, which is read next. Releases that of the file
    /// before.
    ///
    /// # Errors
    /// When there is too little memory, or the receiver has left. The backup then ends.
    fn make_space(&mut self, bytes: u64) -> io::Result<()>;

    /// Sends the next bytes of the stream.
    ///
    /// # Errors
    /// When the receiver has left. The backup then ends.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;
}

impl Database {
    /// Streams a backup of this database, as it was after the last record that was synced when the
    /// backup began. Commits continue. [`receive_backup`](crate::tools::receive_backup) reads the
    /// stream, and so does every program that reads tar archives.
    ///
    /// # Errors
    /// As [`backup`](crate::tools::backup()), and [`ErrorKind::Cancelled`] when `sink` returns an
    /// error.
    pub fn stream_backup(&self, sink: &mut dyn BackupSink) -> Result<Backup> {
        self.check_permission(Resource::BACKUP, Operation::Read)?;
        let shard = self.shards.only().log().directory();
        stream_backup(shard.parent().unwrap_or(Path::new(".")), sink)
    }
}

/// Streams a backup of the database in `database`, as [`Database::stream_backup`] does. The server
/// of the database calls it, which decides who may have the files.
///
/// # Errors
/// As [`backup`](crate::tools::backup()), and [`ErrorKind::Cancelled`] when `sink` returns an
/// error.
pub fn stream_backup(database: &Path, sink: &mut dyn BackupSink) -> Result<Backup> {
    let copy = BackupCopy::of(&machine(), database)?;
    let mut target = StreamTarget { sink, is_begun: false };
    let backup = copy.run(&mut target, &mut |_, _| ())?;
    let list = backup.encode();
    target.make_space(list.len() as u64)?;
    target.file(NAME, list.len() as u64, &list, backup.time)?;
    target.send(&[0; 2 * BLOCK])?;
    report_backup(&backup);
    Ok(backup)
}

struct StreamTarget<'s> {
    sink: &'s mut dyn BackupSink,
    /// Whether the mark of a stream was sent. It is sent with the first file, so an error before
    /// that file comes before the first byte.
    is_begun: bool,
}

impl BackupTarget for StreamTarget<'_> {
    fn make_space(&mut self, bytes: u64) -> Result<()> {
        self.sink.make_space(bytes).map_err(ended)
    }

    fn put(&mut self, shard: u32, file: &BackupFile, used: &[u8]) -> Result<()> {
        self.file(&format!("{}/{}", Meta::shard_name(shard), file.name), file.bytes, used, Timestamp::ZERO)
    }
}

impl StreamTarget<'_> {
    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.send(bytes).map_err(ended)
    }

    /// Sends a file: `used`, and zeros up to `bytes` and to the end of the block.
    fn file(&mut self, path: &str, bytes: u64, used: &[u8], time: Timestamp) -> Result<()> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        if !self.is_begun {
            self.is_begun = true;
            self.send(&header(STREAMED, 0, Timestamp::ZERO))?;
        }
        self.send(&header(path, bytes, time))?;
        self.send(used)?;
        let mut zeros = bytes.next_multiple_of(BLOCK as u64) - used.len() as u64;
        while zeros > 0 {
            let sent = zeros.min(ZEROS.len() as u64);
            self.send(&ZEROS[..sent as usize])?;
            zeros -= sent;
        }
        Ok(())
    }
}

fn ended(error: io::Error) -> Error {
    Error::new(ErrorKind::Cancelled, format!("the receiver ended the backup: {error}"))
}

/// The header of a file.
fn header(path: &str, bytes: u64, time: Timestamp) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    header[..path.len()].copy_from_slice(path.as_bytes());
    header[FIELD_MODE].copy_from_slice(b"0000600\0");
    if bytes <= OCTAL_MAX {
        header[FIELD_SIZE].copy_from_slice(format!("{bytes:011o}\0").as_bytes());
    } else {
        header[FIELD_SIZE.start] = BINARY;
        header[FIELD_SIZE.end - 8..FIELD_SIZE.end].copy_from_slice(&bytes.to_be_bytes());
    }
    let seconds = (time.as_millis() / 1_000).min(OCTAL_MAX);
    header[FIELD_TIME].copy_from_slice(format!("{seconds:011o}\0").as_bytes());
    header[FIELD_KIND] = PLAIN;
    header[FIELD_MAGIC].copy_from_slice(MAGIC);
    let sum = checksum(&header);
    header[FIELD_CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// The sum of the bytes of a header, with spaces in place of the checksum.
fn checksum(header: &[u8; BLOCK]) -> u32 {
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    let own: u32 = header[FIELD_CHECKSUM].iter().map(|byte| u32::from(*byte)).sum();
    sum - own + 8 * u32::from(b' ')
}

/// The path and the size in a header. `None` when it is invalid.
fn parse(header: &[u8; BLOCK]) -> Option<(&str, u64)> {
    let octal = |field: &[u8]| {
        let digits = field.split(|byte| matches!(byte, 0 | b' ')).find(|digits| !digits.is_empty())?;
        u64::from_str_radix(str::from_utf8(digits).ok()?, 8).ok()
    };
    if &header[FIELD_MAGIC] != MAGIC
        || header[FIELD_KIND] != PLAIN
        || octal(&header[FIELD_CHECKSUM]) != Some(checksum(header).into())
    {
        return None;
    }
    let bytes = match header[FIELD_SIZE.start] {
        BINARY => u64::from_be_bytes(header[FIELD_SIZE.end - 8..FIELD_SIZE.end].try_into().expect("eight bytes")),
        _ => octal(&header[FIELD_SIZE])?,
    };
    let name = &header[FIELD_NAME];
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Some((str::from_utf8(name).ok()?, bytes))
}

/// Writes the backup in a stream to `to`, a new or empty directory. The stream is that of
/// [`Database::stream_backup`].
///
/// # Errors
/// * [`ErrorKind::Invalid`] when `to` is not empty.
/// * [`ErrorKind::Damaged`] when the stream is not that of a backup.
/// * [`ErrorKind::NoSpace`], [`ErrorKind::Io`], also when the stream ends too early.
///
/// Files that were written before an error are no backup, and can be removed.
pub fn receive_backup(from: &mut dyn Read, to: &Path) -> Result<Backup> {
    let storage = machine();
    make_empty(&*storage, to)?;
    begin(&*storage, to)?;
    let mut received: Vec<(String, u64)> = Vec::new();
    let mut list: Option<Backup> = None;
    while let Some(header) = next_header(from)? {
        let invalid = || Error::new(ErrorKind::Damaged, "the stream is not a backup: it has an invalid header");
        let (path, bytes) = parse(&header).ok_or_else(invalid)?;
        if path == NAME && bytes <= LIST_BYTES_MAX {
            let mut contents = vec![0; bytes as usize];
            fill(from, &mut contents)?;
            list = Some(Backup::parse(&contents, &to.join(NAME))?);
        } else if path == STREAMED && bytes == 0 && received.is_empty() && list.is_none() {
            // Until the list has arrived, `quire.unfinished` marks the directory.
        } else {
            let name = path.strip_prefix(&format!("{}/", Meta::shard_name(0))).filter(|name| is_plain(name));
            let name = name.filter(|_| list.is_none()).ok_or_else(invalid)?;
            receive_file(from, &*storage, &to.join(path), bytes)?;
            received.push((name.to_owned(), bytes));
        }
        fill(from, &mut [0; BLOCK][..(bytes.next_multiple_of(BLOCK as u64) - bytes) as usize])?;
    }
    let list = list.ok_or_else(cut)?;
    if !list.files.iter().map(|file| (&file.name, file.bytes)).eq(received.iter().map(|(name, bytes)| (name, *bytes))) {
        return Err(Error::new(ErrorKind::Damaged, "the stream is not a backup: its files are not those of its list"));
    }
    commit(&*storage, to, &list)?;
    Ok(list)
}

/// The next header. `None` after the last file.
fn next_header(from: &mut dyn Read) -> Result<Option<[u8; BLOCK]>> {
    let mut header = [0; BLOCK];
    fill(from, &mut header)?;
    if header != [0; BLOCK] {
        return Ok(Some(header));
    }
    fill(from, &mut header)?;
    Ok(None)
}

/// Writes a file of `bytes` bytes.
fn receive_file(from: &mut dyn Read, storage: &dyn Storage, path: &Path, bytes: u64) -> Result<()> {
    let failed = |error| Error::io("write", path, error);
    let file = storage.open(path, Access::CreateNew).map_err(failed)?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    while at < bytes {
        let piece = &mut piece[..(bytes - at).min(PIECE_BYTES as u64) as usize];
        fill(from, piece)?;
        // Zeros at the end of a file take no space.
        if piece.iter().any(|byte| *byte != 0) {
            Gradual::of(&*file).write_at(piece, at).map_err(failed)?;
        }
        at += piece.len() as u64;
    }
    file.set_bytes(bytes).and_then(|()| file.sync_all()).map_err(failed)
}

fn fill(from: &mut dyn Read, bytes: &mut [u8]) -> Result<()> {
    from.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => cut(),
        _ => Error::new(ErrorKind::Io, format!("can't read the stream of the backup: {error}")),
    })
}

fn cut() -> Error {
    Error::new(ErrorKind::Io, "the stream ended before the backup was complete: remove the directory, and try again")
}
