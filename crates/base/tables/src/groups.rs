//! Rows gathered by column until a row group is full.

use std::io::Write;

use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use crate::kind::ColumnKind;
use crate::schema::Column;
use crate::value::Value;

/// Rows of a row group at most.
pub const ROW_GROUP_ROWS: usize = 131_072;

/// Bytes of a row group in memory, before it is packed, at most (and one row).
pub const ROW_GROUP_BYTES: usize = 16 << 20;

/// Values of one column; missing ones only in the definition levels.
#[derive(Debug)]
enum Values {
    Bool(Vec<bool>),
    Int(Vec<i64>),
    Float(Vec<f64>),
    Text(Vec<ByteArray>),
}

/// One column of the row group in the making.
#[derive(Debug)]
struct Gathered {
    values: Values,
    /// 1: there is a value, 0: none. Empty in a required column.
    levels: Vec<i16>,
}

/// The row group in the making.
#[derive(Debug)]
pub(crate) struct Group {
    columns: Vec<Gathered>,
    rows: usize,
    bytes: usize,
}

impl Group {
    pub(crate) fn new(columns: &[Column]) -> Self {
        let gathered = |column: &Column| Gathered {
            values: match column.kind {
                ColumnKind::Bool => Values::Bool(Vec::new()),
                ColumnKind::Int | ColumnKind::Time => Values::Int(Vec::new()),
                ColumnKind::Float => Values::Float(Vec::new()),
                ColumnKind::Text => Values::Text(Vec::new()),
            },
            levels: Vec::new(),
        };
        Self { columns: columns.iter().map(gathered).collect(), rows: 0, bytes: 0 }
    }

    /// Takes a row that fits the columns.
    pub(crate) fn push(&mut self, columns: &[Column], row: Vec<Value>) {
        for ((gathered, column), value) in self.columns.iter_mut().zip(columns).zip(row) {
            if !column.is_required {
                gathered.levels.push(i16::from(value != Value::Null));
                self.bytes += 2;
            }
            self.bytes += gathered.values.push(value);
        }
        self.rows += 1;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.rows >= ROW_GROUP_ROWS || self.bytes >= ROW_GROUP_BYTES
    }

    /// Writes what was gathered, and starts anew.
    pub(crate) fn write<W: Write + Send>(
        &mut self,
        file: &mut SerializedFileWriter<W>,
    ) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = file.next_row_group()?;
        for gathered in &mut self.columns {
            let Some(mut column) = group.next_column()? else { break };
            let levels = (!gathered.levels.is_empty()).then_some(gathered.levels.as_slice());
            gathered.values.write(column.untyped(), levels)?;
            column.close()?;
            gathered.levels.clear();
        }
        group.close()?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }
}

impl Values {
    /// Takes a value, or nothing; returns the bytes it takes.
    fn push(&mut self, value: Value) -> usize {
        match (self, value) {
            (Self::Bool(values), Value::Bool(value)) => {
                values.push(value);
                1
            }
            (Self::Int(values), Value::Int(value)) => {
                values.push(value);
                8
            }
            (Self::Float(values), Value::Float(value)) => {
                values.push(value);
                8
            }
            (Self::Float(values), Value::Int(value)) => {
                values.push(value as f64);
                8
            }
            (Self::Text(values), Value::Text(value)) => {
                let len = value.len() + size_of::<ByteArray>();
                values.push(value.into_bytes().into());
                len
            }
            _ => 0,
        }
    }

    fn write(&mut self, column: &mut ColumnWriter<'_>, levels: Option<&[i16]>) -> Result<(), ParquetError> {
        match (self, column) {
            (Self::Bool(values), ColumnWriter::BoolColumnWriter(column)) => {
                column.write_batch(values, levels, None)?;
                values.clear();
            }
            (Self::Int(values), ColumnWriter::Int64ColumnWriter(column)) => {
                column.write_batch(values, levels, None)?;
                values.clear();
            }
            (Self::Float(values), ColumnWriter::DoubleColumnWriter(column)) => {
                column.write_batch(values, levels, None)?;
                values.clear();
            }
            (Self::Text(values), ColumnWriter::ByteArrayColumnWriter(column)) => {
                column.write_batch(values, levels, None)?;
                values.clear();
            }
            _ => return Err(ParquetError::General("a column of another type than its values".to_owned())),
        }
        Ok(())
    }
}
