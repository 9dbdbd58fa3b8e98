//! [`layered!`]: a section whose keys are all optional, so that a case can be laid over the scenario.

/// Defines a section of optional keys with `layered_over`; unknown keys are refused.
///
/// A `checked pub struct` is [`checked!`], too.
macro_rules! layered {
    (
        $(#[doc = $doc:literal])*
        checked pub struct $name:ident { $($(#[$meta:meta])* pub $field:ident : $ty:ty,)* }
    ) => {
        layered! { @define [, remote = "Self"] [$($doc)*] $name { $([$(#[$meta])*] $field: $ty,)* } }
        checked! { $name }
    };
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident { $($(#[$meta:meta])* pub $field:ident : $ty:ty,)* }
    ) => {
        layered! { @define [] [$($doc)*] $name { $([$(#[$meta])*] $field: $ty,)* } }

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
        #[serde(deny_unknown_fields $($serde)*)]
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

/// Has a section that serde derives as `remote = "Self"` read and then checked: a `check(&self) -> Result<(), String>`
/// written by hand looks at the keys together.
macro_rules! checked {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Self::serialize(self, serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let section = Self::deserialize(deserializer)?;
                section.check().map_err(serde::de::Error::custom)?;
                Ok(section)
            }
        }
    };
}

pub(crate) use checked;
pub(crate) use layered;
