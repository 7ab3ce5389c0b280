//! Typed numbers: positions in the log and in a queue. Mixing them up does not compile.

use std::ops::Add;

/// Declares a number that is never negative and fits a signed field of RocketMQ.
macro_rules! number {
    ($(#[$meta:meta])* $name:ident($type:ty), $from:ident / $to:ident: $signed:ty, $fits:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($type);

        impl $name {
            /// Wraps a plain number. Panics above the largest signed number, which no file or frame can exceed.
            pub const fn new(value: $type) -> Self {
                assert!(value <= <$signed>::MAX as $type, $fits);
                Self(value)
            }

            /// Converts a signed number from a frame, a header or a file; `None` when it is negative.
            #[must_use]
            pub const fn $from(value: $signed) -> Option<Self> {
                if value < 0 { None } else { Some(Self(value.unsigned_abs())) }
            }

            /// The plain number.
            pub const fn get(self) -> $type {
                self.0
            }

            /// The number as RocketMQ's signed fields hold it.
            #[must_use]
            pub const fn $to(self) -> $signed {
                self.0.cast_signed()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }
    };
}

pub(crate) use number;

macro_rules! offset {
    ($(#[$doc:meta])* $name:ident) => {
        number! {
            $(#[$doc])*
            #[derive(Default)]
            $name(u64), from_i64 / to_i64: i64, "an offset fits a signed 64-bit field"
        }

        impl $name {
            /// The first position.
            pub const ZERO: Self = Self(0);

            /// The distance from `earlier` to `self`; zero when `earlier` is larger.
            pub const fn since(self, earlier: Self) -> u64 {
                self.0.saturating_sub(earlier.0)
            }
        }

        impl Add<u64> for $name {
            type Output = Self;
            fn add(self, rhs: u64) -> Self {
                Self::new(self.0 + rhs)
            }
        }
    };
}

offset! {
    /// A byte position in the commit log, counted from the first byte ever written.
    LogOffset
}
offset! {
    /// The offset of a message in its queue, counted from zero.
    QueueOffset
}
