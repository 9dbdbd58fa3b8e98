//! [`name_of`]: the name that the JSON has for a variant.

use serde::Serialize;

/// The name of a variant, of an event its kind; none of anything else.
pub(crate) fn name_of(variant: &impl Serialize) -> Option<String> {
    let value = serde_json::to_value(variant).ok()?;
    value.as_str().or_else(|| value["event"].as_str()).map(str::to_owned)
}
