//! [`layered!`]: a section whose keys are all optional, so that a case can be laid over the scenario.

/// Defines a section of optional keys with `layered_over`; unknown keys are refused.
///
/// In a `checked pub struct` the private twin `Unchecked` is what serde reads, and a
/// `check(&self) -> Result<(), String>` written by hand looks at the keys together.
macro_rules! layered {
    (
        $(#[doc = $doc:literal])*
        checked pub struct $name:ident { $($(#[$meta:meta])* pub $field:ident : $ty:ty,)* }
    ) => {
        layered! { @define [try_from = "Unchecked"] [$($doc)*] $name { $([$(#[$meta])*] $field: $ty,)* } }

        /// The keys as read, before they are checked together.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Unchecked { $(#[serde(default)] $field: Option<$ty>,)* }

        impl TryFrom<Unchecked> for $name {
            type Error = String;
            fn try_from(raw: Unchecked) -> Result<Self, String> {
                let section = Self { $($field: raw.$field,)* };
                section.check().map(|()| section)
            }
        }
    };
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident { $($(#[$meta:meta])* pub $field:ident : $ty:ty,)* }
    ) => {
        layered! { @define [deny_unknown_fields] [$($doc)*] $name { $([$(#[$meta])*] $field: $ty,)* } }

        impl $name {
            /// This section where it says something, `base` elsewhere.
            #[must_use]
            pub fn over(&self, base: &Self) -> Self {
                self.layered_over(base)
            }
        }
    };
    (
        @define [$($serde:tt)*] [$($doc:literal)*]
        $name:ident { $([$(#[$meta:meta])*] $field:ident : $ty:ty,)* }
    ) => {
        $(#[doc = $doc])*
        ///
        /// A key that is `None` was not given.
        #[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
        #[serde($($serde)*)]
        pub struct $name {
            $(
                $(#[$meta])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: Option<$ty>,
            )*
        }

        impl $name {
            fn layered_over(&self, base: &Self) -> Self {
                Self { $($field: self.$field.clone().or_else(|| base.$field.clone()),)* }
            }
        }
    };
}

pub(crate) use layered;
