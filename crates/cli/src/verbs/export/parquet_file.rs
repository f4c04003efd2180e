//! One Parquet file: its columns, its rows in one group, and what it says about its export.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use super::ExportType;
use super::cells::{ExportCell, ExportColumn};

/// The names of the metadata.
const STATEMENT: &str = "quire.statement";
const POSITION: &str = "quire.position";

/// The level of zstd: a higher one costs more time than it saves space.
const ZSTD_LEVEL: i32 = 3;

/// What a file says about its export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExportNotes {
    /// The statement with the names that it was given.
    pub(super) statement: String,
    /// The position of the last row of an ordered export; that of the log for a snapshot.
    pub(super) position: i64,
}

/// Writes a file.
///
/// # Errors
/// When it can't be written. [`io::ErrorKind::InvalidData`] when a value does not fit its column.
pub(super) fn write(
    file: &File,
    columns: &[ExportColumn],
    rows: &[Vec<ExportCell>],
    notes: &ExportNotes,
) -> io::Result<()> {
    let fields =
        columns.iter().map(|column| field(column).map(Arc::new)).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let schema = Type::group_type_builder("quire").with_fields(fields).build().map_err(failed)?;
    let metadata = [(STATEMENT, notes.statement.clone()), (POSITION, notes.position.to_string())];
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL).map_err(failed)?))
        .set_created_by(format!("quire {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(metadata.map(|(name, value)| KeyValue::new(name.to_owned(), value)).to_vec()));
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build())).map_err(failed)?;
    let mut group = writer.next_row_group().map_err(failed)?;
    for (number, column) in columns.iter().enumerate() {
        let mut writer = group.next_column().map_err(failed)?.expect("a writer for each column");
        let cells = rows.iter().map(|row| &row[number]);
        match column.kind {
            ExportType::Integer => write_column::<Int64Type>(&mut writer, column, cells, ExportCell::integer)?,
            ExportType::Real => write_column::<DoubleType>(&mut writer, column, cells, |cell| match cell {
                ExportCell::Integer(number) => Some(*number as f64),
                ExportCell::Real(number) => Some(*number),
                _ => None,
            })?,
            ExportType::Text => write_column::<ByteArrayType>(&mut writer, column, cells, text_of)?,
            ExportType::Binary => write_column::<ByteArrayType>(&mut writer, column, cells, |cell| match cell {
                ExportCell::Bytes(bytes) => Some(ByteArray::from(bytes.clone())),
                cell => text_of(cell),
            })?,
        }
        writer.close().map_err(failed)?;
    }
    group.close().map_err(failed)?;
    writer.close().map(drop).map_err(failed)
}

/// Reads the columns and the notes of a file.
///
/// # Errors
/// When it can't be read. [`io::ErrorKind::InvalidData`] when it is not a file of an export.
pub(super) fn read(path: &Path) -> io::Result<(Vec<ExportColumn>, ExportNotes)> {
    let reader = SerializedFileReader::new(File::open(path)?).map_err(failed)?;
    let metadata = reader.metadata().file_metadata();
    let note = |name: &str| {
        let found = metadata.key_value_metadata().into_iter().flatten().find(|pair| pair.key == name);
        found.and_then(|pair| pair.value.clone()).ok_or_else(|| invalid(format!("its metadata has no {name}")))
    };
    let position = note(POSITION)?.parse().map_err(|_| invalid(format!("its {POSITION} is no number")))?;
    let columns = metadata.schema_descr().columns().iter().map(|column| {
        let kind = match (column.physical_type(), column.logical_type_ref()) {
            (PhysicalType::INT64, _) => ExportType::Integer,
            (PhysicalType::DOUBLE, _) => ExportType::Real,
            (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)) => ExportType::Text,
            _ => ExportType::Binary,
        };
        ExportColumn { name: column.name().to_owned(), kind }
    });
    Ok((columns.collect(), ExportNotes { statement: note(STATEMENT)?, position }))
}

fn field(column: &ExportColumn) -> Result<Type, ParquetError> {
    let (physical, logical) = match column.kind {
        ExportType::Integer => (PhysicalType::INT64, None),
        ExportType::Real => (PhysicalType::DOUBLE, None),
        ExportType::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        ExportType::Binary => (PhysicalType::BYTE_ARRAY, None),
    };
    let field = Type::primitive_type_builder(&column.name, physical).with_repetition(Repetition::OPTIONAL);
    field.with_logical_type(logical).build()
}

/// Writes the cells of a column. `value` returns `None` for a cell that does not fit.
fn write_column<'c, T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    column: &ExportColumn,
    cells: impl Iterator<Item = &'c ExportCell>,
    value: impl Fn(&ExportCell) -> Option<T::T>,
) -> io::Result<()> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    for cell in cells {
        levels.push(i16::from(*cell != ExportCell::Null));
        if *cell != ExportCell::Null {
            values.push(value(cell).ok_or_else(|| does_not_fit(column, cell))?);
        }
    }
    writer.typed::<T>().write_batch(&values, Some(&levels), None).map(drop).map_err(failed)
}

fn text_of(cell: &ExportCell) -> Option<ByteArray> {
    match cell {
        ExportCell::Text(text) => Some(ByteArray::from(text.as_str())),
        ExportCell::Integer(number) => Some(ByteArray::from(number.to_string().as_str())),
        ExportCell::Real(number) => Some(ByteArray::from(number.to_string().as_str())),
        ExportCell::Bytes(_) | ExportCell::Null => None,
    }
}

fn does_not_fit(column: &ExportColumn, cell: &ExportCell) -> io::Error {
    let ExportColumn { name, kind } = column;
    let kind = format!("{kind:?}").to_lowercase();
    let (found, wider) = match cell {
        ExportCell::Bytes(_) => (cell.kind_name(), "binary"),
        ExportCell::Real(_) => (cell.kind_name(), "real"),
        _ => (cell.kind_name(), "text"),
    };
    invalid(format!(
        "column {name} is {kind}, and a row has {found}: export to a new directory with --type {name}={wider}"
    ))
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => invalid(source.to_string()),
        },
        error => invalid(error.to_string()),
    }
}
