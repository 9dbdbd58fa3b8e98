//! [`TableSchema`]: what the columns of a table are.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::schema::types::{Type, TypePtr};
use serde::{Deserialize, Serialize};

use crate::error::TablesError;
use crate::kind::ColumnKind;

/// One column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Type of its values.
    pub kind: ColumnKind,
    /// Unit of its numbers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unit: Option<String>,
    /// One sentence.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub meaning: String,
    /// Each row has a value.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_required: bool,
}

impl Column {
    /// A column whose values may be missing.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: ColumnKind) -> Self {
        Self { name: name.into(), kind, unit: None, meaning: String::new(), is_required: false }
    }

    /// A column of true and false.
    #[must_use]
    pub fn bool(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Bool)
    }

    /// A column of whole numbers.
    #[must_use]
    pub fn int(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Int)
    }

    /// A column of numbers.
    #[must_use]
    pub fn float(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Float)
    }

    /// A column of text.
    #[must_use]
    pub fn text(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Text)
    }

    /// A column of times.
    #[must_use]
    pub fn time(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Time)
    }

    /// Sets the unit of its numbers.
    #[must_use]
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = Some(unit.into());
        self
    }

    /// Sets a sentence on what it means.
    #[must_use]
    pub fn meaning(mut self, meaning: impl Into<String>) -> Self {
        self.meaning = meaning.into();
        self
    }

    /// Each row has a value.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    fn as_parquet(&self) -> Result<Type, parquet::errors::ParquetError> {
        let (physical, logical) = match self.kind {
            ColumnKind::Bool => (Physical::BOOLEAN, None),
            ColumnKind::Int => (Physical::INT64, None),
            ColumnKind::Float => (Physical::DOUBLE, None),
            ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            ColumnKind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS))),
        };
        let repetition = if self.is_required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        Type::primitive_type_builder(&self.name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()
    }
}

/// The columns of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSchema {
    /// The table's name.
    pub table: String,
    /// Changes when a column changes its meaning or goes; new columns do not change it.
    pub version: u32,
    /// Its columns, in order.
    pub columns: Vec<Column>,
}

impl TableSchema {
    /// A table without columns.
    #[must_use]
    pub fn new(table: impl Into<String>, version: u32) -> Self {
        Self { table: table.into(), version, columns: Vec::new() }
    }

    /// Adds a column.
    #[must_use]
    pub fn with(mut self, column: Column) -> Self {
        self.columns.push(column);
        self
    }

    /// The place of a column.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    pub(crate) fn as_parquet(&self) -> Result<TypePtr, parquet::errors::ParquetError> {
        let fields: Result<Vec<TypePtr>, _> =
            self.columns.iter().map(|column| column.as_parquet().map(Arc::new)).collect();
        Type::group_type_builder(&self.table).with_fields(fields?).build().map(Arc::new)
    }

    /// The columns of a Parquet file that does not say them: as its types tell.
    pub(crate) fn from_parquet(root: &Type, what: &str) -> Result<Self, TablesError> {
        let mut schema = Self::new(root.name(), 0);
        for field in root.get_fields() {
            let unknown =
                || TablesError::UnknownType { what: what.to_owned(), column: field.name().to_owned() };
            if !field.is_primitive() || field.get_basic_info().repetition() == Repetition::REPEATED {
                return Err(unknown());
            }
            let is_micros = matches!(
                field.get_basic_info().logical_type_ref(),
                Some(LogicalType::Timestamp(time)) if time.unit == TimeUnit::MICROS
            );
            let kind = match field.get_physical_type() {
                Physical::BOOLEAN => ColumnKind::Bool,
                Physical::INT64 if is_micros => ColumnKind::Time,
                Physical::INT32 | Physical::INT64 => ColumnKind::Int,
                Physical::FLOAT | Physical::DOUBLE => ColumnKind::Float,
                Physical::BYTE_ARRAY => ColumnKind::Text,
                _ => return Err(unknown()),
            };
            let mut column = Column::new(field.name(), kind);
            column.is_required = field.get_basic_info().repetition() == Repetition::REQUIRED;
            schema.columns.push(column);
        }
        Ok(schema)
    }
}
