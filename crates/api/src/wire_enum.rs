//! Enums that exist twice, as the wire writes them and as `core` decides on them.

/// Two enums with the same variants, one on each side.
macro_rules! same_variants {
    ($wire:ty, $core:ty, $($variant:ident),+) => {
        impl From<$core> for $wire {
            fn from(value: $core) -> Self {
                match value { $(<$core>::$variant => Self::$variant),+ }
            }
        }

        impl From<$wire> for $core {
            fn from(value: $wire) -> Self {
                match value { $(<$wire>::$variant => Self::$variant),+ }
            }
        }
    };
}

pub(crate) use same_variants;
