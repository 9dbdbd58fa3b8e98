//! [`Rare`]: what few things of a kind have, out of the way of what all of them have.

use std::ops::Deref;

use crate::{Layouts, Reader, Stored, StoredError, Writer};

/// State that says nothing as long as nothing out of the ordinary happens.
///
/// [`Rare`] keeps no memory for it then.
pub trait Absent: Default + 'static {
    /// The value that says nothing.
    const ABSENT: &'static Self;

    /// True for a value that is as good as [`Absent::ABSENT`].
    fn is_absent(&self) -> bool;
}

/// A value in memory of its own, which there is only while it says something. It is stored as the value itself.
#[derive(Clone, Debug)]
pub struct Rare<T>(Option<Box<T>>);

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Absent> Deref for Rare<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::ABSENT)
    }
}

impl<T> Rare<T> {
    /// Calls `prefetch` with address and length of its memory, if it has any.
    #[inline]
    pub fn ask_for(&self, prefetch: fn(usize, usize)) {
        if let Some(value) = self.0.as_deref() {
            prefetch(std::ptr::from_ref(value).addr(), size_of::<T>());
        }
    }
}

impl<T: Absent> Rare<T> {
    /// Makes a change, and gives what `change` gives; what says nothing afterwards is forgotten.
    pub fn change<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        let value = self.0.get_or_insert_default();
        let result = change(value);
        if value.is_absent() {
            self.0 = None;
        }
        result
    }
}

impl<T: Absent + Stored> Stored for Rare<T> {
    #[inline]
    fn store(&self, out: &mut Writer) {
        T::store(self, out);
    }
    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        let value: T = from.value()?;
        Ok(Self((!value.is_absent()).then(|| Box::new(value))))
    }
    fn layout(layouts: &mut Layouts) {
        T::layout(layouts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{from_bytes, to_bytes};

    #[derive(Default, PartialEq, Debug)]
    struct Count(u32);

    impl Absent for Count {
        const ABSENT: &'static Self = &Self(0);
        fn is_absent(&self) -> bool {
            self.0 == 0
        }
    }

    impl Stored for Count {
        fn store(&self, out: &mut Writer) {
            self.0.store(out);
        }
        fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
            from.value().map(Self)
        }
    }

    #[test]
    fn it_is_the_value_in_eight_bytes_and_is_there_while_that_says_something() {
        assert_eq!(size_of::<Rare<Count>>(), 8);
        let mut rare = Rare::<Count>::default();
        assert_eq!((rare.0.is_none(), &*rare, to_bytes(&rare)), (true, &Count(0), to_bytes(&0u32)));
        assert_eq!(rare.change(|count| std::mem::replace(&mut count.0, 7)), 0);
        assert_eq!((rare.0.is_none(), &*rare, to_bytes(&rare)), (false, &Count(7), to_bytes(&7u32)));
        assert_eq!(from_bytes::<Rare<Count>>(1, &to_bytes(&rare)).map(|rare| rare.0), Ok(rare.0.take()));
        rare.change(|count| count.0 = 0);
        assert!(rare.0.is_none());
        assert!(from_bytes::<Rare<Count>>(1, &to_bytes(&0u32)).is_ok_and(|rare| rare.0.is_none()));
    }
}
