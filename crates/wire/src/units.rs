//! Typed numbers: positions in the log and in a queue. Mixing them up does not compile.

use std::fmt;
use std::ops::Add;

macro_rules! offset {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(u64);

        impl $name {
            /// The first position.
            pub const ZERO: Self = Self(0);

            /// Wraps a plain number. Panics above `i64::MAX`, which no file or frame can hold.
            #[must_use]
            pub const fn new(value: u64) -> Self {
                assert!(value <= i64::MAX as u64, "an offset fits a signed 64-bit field");
                Self(value)
            }

            /// Converts a signed number from a frame or a file; `None` when it is negative.
            #[must_use]
            pub const fn from_i64(value: i64) -> Option<Self> {
                if value < 0 { None } else { Some(Self(value.unsigned_abs())) }
            }

            /// The plain number.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The number as RocketMQ's signed fields hold it.
            #[must_use]
            pub const fn to_i64(self) -> i64 {
                self.0.cast_signed()
            }

            /// The distance from `earlier` to `self`; zero when `earlier` is larger.
            #[must_use]
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

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
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
