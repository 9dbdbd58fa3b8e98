//! Storage of types that hold other values.

use std::collections::VecDeque;

use crate::{Layouts, Reader, Stored, StoredError, Writer};

impl<T: Stored> Stored for Option<T> {
    #[inline]
    fn store(&self, out: &mut Writer) {
        self.is_some().store(out);
        if let Some(value) = self {
            value.store(out);
        }
    }
    #[inline]
    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        if from.value::<bool>()? { from.value().map(Some) } else { Ok(None) }
    }
    fn layout(layouts: &mut Layouts) {
        T::layout(layouts);
    }
}

impl<T: Stored> Stored for Box<T> {
    #[inline]
    fn store(&self, out: &mut Writer) {
        (**self).store(out);
    }
    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        from.value().map(Self::new)
    }
    fn layout(layouts: &mut Layouts) {
        T::layout(layouts);
    }
}

impl<T: Stored, const N: usize> Stored for [T; N] {
    fn store(&self, out: &mut Writer) {
        T::store_all(self, out);
    }
    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        T::restore_array(from)
    }
    fn layout(layouts: &mut Layouts) {
        T::layout(layouts);
    }
}

impl<T: Stored> Stored for Vec<T> {
    fn store(&self, out: &mut Writer) {
        out.len_of_list(self.len());
        T::store_all(self, out);
    }
    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        let len = from.len_of_list("list")?;
        T::restore_list(len, from)
    }
    fn layout(layouts: &mut Layouts) {
        T::layout(layouts);
    }
}

impl<T: Stored> Stored for VecDeque<T> {
    fn store(&self, out: &mut Writer) {
        out.len_of_list(self.len());
        self.iter().for_each(|value| value.store(out));
    }
    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        from.value().map(Vec::into)
    }
    fn layout(layouts: &mut Layouts) {
        T::layout(layouts);
    }
}

impl Stored for String {
    fn store(&self, out: &mut Writer) {
        out.text(self);
    }
    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        from.text().map(str::to_owned)
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    #[inline]
    fn store(&self, out: &mut Writer) {
        self.0.store(out);
        self.1.store(out);
    }
    #[inline]
    fn restore(from: &mut Reader<'_>) -> Result<Self, StoredError> {
        Ok((from.value()?, from.value()?))
    }
    fn layout(layouts: &mut Layouts) {
        A::layout(layouts);
        B::layout(layouts);
    }
}
