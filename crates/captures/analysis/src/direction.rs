//! [`Direction`]: which of a flow's two endpoints sends; [`PerDirection`]: one value for each.

use std::ops::{Index, IndexMut};

use serde::Serialize;

/// A direction of a flow, named by the endpoint that sends. In JSON it is 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(into = "u8")]
pub enum Direction {
    /// Sent by the flow's first endpoint, the sender of the first packet; 0 in JSON.
    FromFirst = 0,
    /// Sent by the flow's second endpoint; 1 in JSON.
    FromSecond = 1,
}

impl Direction {
    /// Both, in the order of their numbers.
    pub const BOTH: [Self; 2] = [Self::FromFirst, Self::FromSecond];

    /// The other direction.
    #[inline]
    #[must_use]
    pub const fn reverse(self) -> Self {
        match self {
            Self::FromFirst => Self::FromSecond,
            Self::FromSecond => Self::FromFirst,
        }
    }

    /// The direction of what an endpoint sends: of the first, or of the second.
    #[inline]
    pub(crate) const fn from_second_if(is_second: bool) -> Self {
        if is_second { Self::FromSecond } else { Self::FromFirst }
    }
}

impl From<Direction> for u8 {
    #[inline]
    fn from(direction: Direction) -> Self {
        direction as Self
    }
}

impl From<Direction> for usize {
    #[inline]
    fn from(direction: Direction) -> Self {
        direction as Self
    }
}

/// One value for each direction of a flow. In JSON it is an array of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(transparent)]
pub struct PerDirection<T>([T; 2]);

impl<T> PerDirection<T> {
    /// Values in the order of [`Direction::BOTH`].
    #[inline]
    pub const fn new(from_first: T, from_second: T) -> Self {
        Self([from_first, from_second])
    }

    /// Value of `of` for each direction.
    #[inline]
    pub fn each(of: impl FnMut(Direction) -> T) -> Self {
        Self(Direction::BOTH.map(of))
    }

    /// The values, that of the first endpoint's direction first.
    #[inline]
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// The same, to change them.
    #[inline]
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.0.iter_mut()
    }

    /// The values, that of the first endpoint's direction first.
    #[inline]
    pub const fn as_array(&self) -> &[T; 2] {
        &self.0
    }

    /// The value of `direction`, then that of the other one.
    #[inline]
    pub(crate) fn pair_mut(&mut self, direction: Direction) -> [&mut T; 2] {
        let [first, second] = &mut self.0;
        match direction {
            Direction::FromFirst => [first, second],
            Direction::FromSecond => [second, first],
        }
    }
}

impl<T> Index<Direction> for PerDirection<T> {
    type Output = T;
    #[inline]
    fn index(&self, direction: Direction) -> &T {
        let [first, second] = &self.0;
        match direction {
            Direction::FromFirst => first,
            Direction::FromSecond => second,
        }
    }
}

impl<T> IndexMut<Direction> for PerDirection<T> {
    #[inline]
    fn index_mut(&mut self, direction: Direction) -> &mut T {
        let [first, second] = &mut self.0;
        match direction {
            Direction::FromFirst => first,
            Direction::FromSecond => second,
        }
    }
}

impl<'a, T> IntoIterator for &'a PerDirection<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut PerDirection<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_has_its_own_place_and_number() {
        let mut bytes = PerDirection::each(|direction| u64::from(u8::from(direction)) * 10);
        assert_eq!(bytes.as_array(), &[0, 10]);
        for direction in Direction::BOTH {
            assert_eq!(usize::from(direction), usize::from(u8::from(direction)));
            assert_eq!(direction.reverse().reverse(), direction);
            assert_ne!(direction.reverse(), direction);
            bytes[direction] += 1;
            let other = bytes[direction.reverse()];
            assert_eq!(bytes.pair_mut(direction).map(|value| *value), [bytes[direction], other]);
        }
        assert_eq!(bytes, PerDirection::new(1, 11));
        assert_eq!(serde_json::to_string(&(Direction::BOTH, bytes)).unwrap(), "[[0,1],[1,11]]");
    }
}
