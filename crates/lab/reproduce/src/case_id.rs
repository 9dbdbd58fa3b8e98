//! [`CaseId`]: what an experiment calls the cases of a scenario file.

/// Names that an experiment gives to the cases of a scenario file.
///
/// A case is looked up by a value of such a type, never by a name: a name that the file lacks is an
/// error when the experiment is built.
pub trait CaseId: Copy {
    /// All that the experiment looks at.
    fn all() -> Vec<Self>;
    /// Its name in the file.
    fn name(self) -> String;
}

/// A case and a value of the file's grid, or two parts of a name.
impl<A: CaseId, B: CaseId> CaseId for (A, B) {
    fn all() -> Vec<Self> {
        A::all().into_iter().flat_map(|a| B::all().into_iter().map(move |b| (a, b))).collect()
    }
    fn name(self) -> String {
        format!("{}, {}", self.0.name(), self.1.name())
    }
}

/// An enum whose values are cases of a scenario file, or parts of their names, each with its name there.
macro_rules! case_ids {
    ($(#[$meta:meta])* $vis:vis enum $id:ident { $($case:ident = $name:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        $vis enum $id {
            $(
                #[doc = $name]
                $case,
            )+
        }
        impl $id {
            /// As the file has it, and as it is shown.
            $vis const fn label(self) -> &'static str {
                match self {
                    $(Self::$case => $name),+
                }
            }
        }
        impl $crate::CaseId for $id {
            fn all() -> Vec<Self> {
                vec![$(Self::$case),+]
            }
            fn name(self) -> String {
                self.label().to_owned()
            }
        }
    };
}
pub(crate) use case_ids;

/// The cases among these that are not among the names there are, as one line; none where all are.
pub(crate) fn missing<C: CaseId>(there: &[String]) -> Option<String> {
    let names = C::all().into_iter().map(CaseId::name).filter(|name| !there.contains(name));
    let missing: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match &missing[..] {
        [] => None,
        [one] => Some(format!("has no case {one}")),
        several => Some(format!("has no cases {}", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    case_ids! {
        enum Flow { Plain = "CUBIC", Fast = "accelerated, 17 KB" }
    }
    case_ids! {
        enum Rate { Slow = "1 Mbit/s", Fast = "2 Mbit/s" }
    }

    #[test]
    fn a_grid_has_every_pair() {
        let names: Vec<String> = <(Flow, Rate)>::all().into_iter().map(CaseId::name).collect();
        let wanted = ["CUBIC, 1 Mbit/s", "CUBIC, 2 Mbit/s"];
        assert_eq!((&names[..2], names.len()), (&wanted.map(str::to_owned)[..], 4));
        assert_eq!((Flow::Fast, Rate::Slow).name(), "accelerated, 17 KB, 1 Mbit/s");
    }

    #[test]
    fn what_is_missing_is_named() {
        let there = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(missing::<Flow>(&there(&["accelerated, 17 KB", "more", "CUBIC"])), None);
        let typo = there(&["CUBC", "accelerated, 17 KB"]);
        assert_eq!(missing::<Flow>(&typo).unwrap(), "has no case `CUBIC`");
        assert_eq!(missing::<Rate>(&typo).unwrap(), "has no cases `1 Mbit/s`, `2 Mbit/s`");
    }
}
