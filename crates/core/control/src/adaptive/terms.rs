//! [`Terms`]: what `adaptive` consists of, each part of which can be left out to measure what it is worth.

use core::str::FromStr;

/// A part of the law, or of how its symbols are found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Term {
    /// r̄: the second bound, `2K + (τ + D)·r̄`.
    Patience,
    /// d follows how often the queue was empty; without: half of the largest headroom.
    Headroom,
    /// Times follow the link's grain; without: the bins are as long as the parameter says.
    Grain,
    /// K.
    Constant,
    /// Bursts that radio repairs let go at once, again and again, are in flight on top.
    Bursts,
    /// The path is longer by what long repairs hold back.
    Blocking,
    /// A buffer smaller than W bounds it.
    Ceiling,
    /// Bursts that come in most stretches, not in all, count where nearly every round trip loses something.
    Repairs,
    /// A start grows also when half of the window is in use; without: when all of it is.
    HalfUse,
    /// The floor is measured when it has not been seen for long.
    Drain,
    /// After a time-out a segment is in flight, and then twice what is heard.
    Silence,
    /// After a time-out 32 segments where data has been lost of late; without: one.
    Retry,
    /// Pacing over what repairs hold back; without: as for any link.
    HeldPace,
    /// Competition of the window with those of others, where they fill the queue.
    Competition,
}

impl Term {
    /// All of them, and their names.
    pub const ALL: [(Self, &'static str); 14] = [
        (Self::Patience, "patience"),
        (Self::Headroom, "headroom"),
        (Self::Grain, "grain"),
        (Self::Constant, "constant"),
        (Self::Bursts, "bursts"),
        (Self::Blocking, "blocking"),
        (Self::Ceiling, "ceiling"),
        (Self::Repairs, "repairs"),
        (Self::HalfUse, "half-use"),
        (Self::Drain, "drain"),
        (Self::Silence, "silence"),
        (Self::Retry, "retry"),
        (Self::HeldPace, "held-pace"),
        (Self::Competition, "competition"),
    ];
}

/// A set of terms.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, stored::Stored)]
pub struct Terms(u32);

impl Terms {
    /// No term.
    pub const NONE: Self = Self(0);

    /// True when `term` is one of them.
    #[must_use]
    pub const fn has(self, term: Term) -> bool {
        self.0 & (1 << term as u8) != 0
    }

    /// These and `term`.
    #[must_use]
    pub const fn with(self, term: Term) -> Self {
        Self(self.0 | (1 << term as u8))
    }
}

impl core::fmt::Display for Terms {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names = Term::ALL.iter().filter(|(term, _)| self.has(*term)).map(|(_, name)| *name);
        let names: Vec<_> = names.collect();
        f.write_str(if names.is_empty() { "none" } else { "" })?;
        f.write_str(&names.join("+"))
    }
}

impl FromStr for Terms {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "none" {
            return Ok(Self::NONE);
        }
        text.split('+').try_fold(Self::NONE, |terms, name| {
            let (term, _) = Term::ALL.iter().find(|(_, known)| *known == name.trim()).ok_or(())?;
            Ok(terms.with(*term))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_their_terms_and_back() {
        for (index, (term, name)) in Term::ALL.into_iter().enumerate() {
            let terms: Terms = name.parse().unwrap();
            assert_eq!((terms, terms.to_string().as_str()), (Terms::NONE.with(term), name));
            assert!(terms.has(term));
            assert_eq!(Term::ALL.iter().position(|(other, _)| terms.has(*other)), Some(index));
        }
        let two: Terms = "bursts+grain".parse().unwrap();
        assert_eq!(two.to_string(), "grain+bursts");
        assert_eq!(("none".parse(), Terms::NONE.to_string().as_str()), (Ok(Terms::NONE), "none"));
        assert_eq!("bursts+gravity".parse::<Terms>(), Err(()));
    }
}
