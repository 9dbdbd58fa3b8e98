//! [`Layouts`]: the format as text.

use std::any::type_name;
use std::collections::BTreeSet;

use crate::Stored;

/// Layouts of a type and of all types it holds, as text: a line for each type with its fields, or its variants
/// with theirs, below it. Those come first that others hold.
#[derive(Default)]
pub struct Layouts {
    written: String,
    /// Lines of the type that is being described.
    begun: String,
    seen: BTreeSet<&'static str>,
}

impl Layouts {
    /// The text for `T`.
    #[must_use]
    pub fn text_of<T: Stored>() -> String {
        let mut layouts = Self::default();
        T::layout(&mut layouts);
        layouts.written
    }

    /// Describes `T`, once, whose fields `fields` adds.
    #[doc(hidden)]
    pub fn of<T>(&mut self, name: &str, fields: impl FnOnce(&mut Self)) {
        if self.seen.insert(type_name::<T>()) {
            let outer = std::mem::replace(&mut self.begun, format!("{name}\n"));
            fields(self);
            self.written += &std::mem::replace(&mut self.begun, outer);
        }
    }

    /// Adds a field of type `T`.
    #[doc(hidden)]
    pub fn value<T: Stored>(&mut self, name: &str) {
        self.begun += &format!("  {name}: {}\n", without_paths(type_name::<T>()));
        T::layout(self);
    }

    /// Adds a variant; its fields follow.
    #[doc(hidden)]
    pub fn variant(&mut self, name: &str) {
        self.begun += &format!(" {name}\n");
    }
}

/// `Vec<Flow>` for `alloc::vec::Vec<engine::flow::Flow>`: a type may move to another module.
fn without_paths(name: &str) -> String {
    let pieces =
        name.split_inclusive(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != ':');
    pieces.map(|piece| piece.rsplit("::").next().unwrap_or(piece)).collect()
}
