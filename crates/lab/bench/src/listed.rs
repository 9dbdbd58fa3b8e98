//! [`listed`]: enums whose values have a name and some words each.

/// An enum with the list of its values, the name of each, and a text about each.
macro_rules! listed {
    (
        $(#[$meta:meta])* $vis:vis enum $list:ident;
        $(#[$about:meta])* fn $text:ident;
        $($(#[$doc:meta])* $value:ident: $name:literal, $words:literal;)+
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        $vis enum $list {
            $($(#[$doc])* $value,)+
        }

        impl $list {
            /// All, in their order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// Its name on the command line and in results.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name),+
                }
            }

            $(#[$about])*
            #[must_use]
            pub const fn $text(self) -> &'static str {
                match self {
                    $(Self::$value => $words),+
                }
            }
        }
    };
}
pub(crate) use listed;
