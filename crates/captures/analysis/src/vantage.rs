//! [`Vantage`]: where on the path the capture was made.

use serde::Serialize;
use units::Duration;

use crate::direction::Direction;

/// Place on the path where a flow was captured, found from how the round-trip time divides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Vantage {
    /// At the flow's first endpoint, or next to it.
    First,
    /// At the flow's second endpoint, or next to it.
    Second,
    /// Between the two.
    Middle,
    /// Both ends are as near as can be, as on one machine.
    Both,
}

/// Closer than this is "at" an endpoint, whatever the path: longer than a host takes to answer.
pub(crate) const NEAR: Duration = Duration::from_millis(1);

/// From the shortest round trips to the second and to the first endpoint; none if one is not known.
pub(crate) fn vantage(to_second: Option<Duration>, to_first: Option<Duration>) -> Option<Vantage> {
    let (second, first) = (to_second?, to_first?);
    let total = second + first;
    if total <= NEAR {
        return Some(Vantage::Both);
    }
    // A twentieth of the path, but at most what a slow host takes.
    let is_near = |part: Duration| part * 20 <= total || (part <= NEAR && part * 2 <= total);
    Some(match (is_near(first), is_near(second)) {
        (true, true) => Vantage::Both,
        (true, false) => Vantage::First,
        (false, true) => Vantage::Second,
        (false, false) => Vantage::Middle,
    })
}

impl Vantage {
    /// The same place with the ends named the other way round.
    pub(crate) fn exchanged(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
            other => other,
        }
    }

    /// True when what `direction` sends again can be seen: the capture lies before where packets are lost.
    pub(crate) fn sees_sender(self, direction: Direction) -> bool {
        match self {
            Self::First => direction == Direction::FromFirst,
            Self::Second => direction == Direction::FromSecond,
            Self::Middle | Self::Both => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_half_tells() {
        let at = |a, b| vantage(Some(Duration::from_micros(a)), Some(Duration::from_micros(b)));
        assert_eq!(at(40_000, 30), Some(Vantage::First));
        assert_eq!(at(30, 40_000), Some(Vantage::Second));
        assert_eq!(at(20_000, 20_000), Some(Vantage::Middle));
        assert_eq!(at(30, 25), Some(Vantage::Both));
        assert_eq!(vantage(None, Some(Duration::ZERO)), None);
    }
}
