//! [`ColumnKind`]: the type of a column.

use serde::{Deserialize, Serialize};

/// Type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// True or false.
    Bool,
    /// Whole numbers of 64 bits.
    Int,
    /// Floating-point numbers of 64 bits.
    Float,
    /// Text in UTF-8.
    Text,
    /// Microseconds since 1970-01-01 UTC, a whole number; databases show it as a time of day.
    Time,
}
