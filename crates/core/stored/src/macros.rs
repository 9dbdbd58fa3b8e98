//! The lists of fields and variants.

/// Says how a structure is stored: its fields, in this order.
///
/// `fields!(Name { one, two: since(2, 0) })`; with parameters that are stored themselves
/// `fields!([T] Name { one })`; of a tuple structure with one field `fields!(Name(inner))`.
#[macro_export]
macro_rules! fields {
    ($name:ident { $($field:ident $(: since($version:literal, $before:expr))?),* $(,)? }) => {
        $crate::fields!([] $name { $($field $(: since($version, $before))?),* });
    };
    ([$($generic:ident),*] $name:ident { $($field:ident $(: since($version:literal, $before:expr))?),* $(,)? }) => {
        impl<$($generic: $crate::Stored),*> $crate::Stored for $name<$($generic),*> {
            fn store(&self, out: &mut $crate::Writer) {
                let Self { $($field),* } = self;
                $($crate::Stored::store($field, out);)*
                let _ = out;
            }
            fn restore(from: &mut $crate::Reader<'_>) -> Result<Self, $crate::StoredError> {
                let _ = &from;
                Ok(Self { $($field: $crate::read_field!(from $(, $version, $before)?)),* })
            }
        }
    };
    ($name:ident($field:ident)) => {
        $crate::fields!([] $name($field));
    };
    ([$($generic:ident),*] $name:ident($field:ident)) => {
        impl<$($generic: $crate::Stored),*> $crate::Stored for $name<$($generic),*> {
            fn store(&self, out: &mut $crate::Writer) {
                let Self($field) = self;
                $crate::Stored::store($field, out);
            }
            fn restore(from: &mut $crate::Reader<'_>) -> Result<Self, $crate::StoredError> {
                from.value().map(Self)
            }
        }
    };
}

/// Reads a field, or takes its value where it did not exist yet.
#[doc(hidden)]
#[macro_export]
macro_rules! read_field {
    ($from:ident) => {
        $from.value()?
    };
    ($from:ident, $version:literal, $before:expr) => {
        if $from.version() >= $version { $from.value()? } else { $before }
    };
}

/// Says how an enum is stored: a byte for the variant, and its fields in this order.
///
/// `variants! { Name: 0 => One, 1 => Two(value), 2 => Three { a, b: since(2, 0) } }`
#[macro_export]
macro_rules! variants {
    ($name:ident: $(
        $number:literal => $variant:ident
            $({ $($field:ident $(: since($version:literal, $before:expr))?),* $(,)? })?
            $(( $($value:ident),* ))?
    ),+ $(,)?) => {
        impl $crate::Stored for $name {
            fn store(&self, out: &mut $crate::Writer) {
                match self {$(
                    Self::$variant $({ $($field),* })? $(( $($value),* ))? => {
                        $crate::Stored::store(&($number as u8), out);
                        $($($crate::Stored::store($field, out);)*)?
                        $($($crate::Stored::store($value, out);)*)?
                    }
                )+}
            }
            fn restore(from: &mut $crate::Reader<'_>) -> Result<Self, $crate::StoredError> {
                let at = from.at();
                match from.value::<u8>()? {
                    $($number => {
                        $($(let $field = $crate::read_field!(from $(, $version, $before)?);)*)?
                        $($(let $value = from.value()?;)*)?
                        Ok(Self::$variant $({ $($field),* })? $(( $($value),* ))?)
                    })+
                    _ => Err($crate::Reader::senseless(at, stringify!($name))),
                }
            }
        }
    };
}
