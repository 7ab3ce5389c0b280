//! Settings of a running broker. A change makes a new set of all settings. A reader sees the old or the new set,
//! never a mix, and a read costs one atomic load more than a plain reference.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::Config;

/// Most different sets of settings a process may have. Each set is kept until the process ends, because
/// readers may still hold it; a set that is used again is not counted again.
const SETS_MAX: usize = if cfg!(test) { 4 } else { 4096 };

/// All sets of settings there were; dereferences to the current [`Config`].
pub(crate) struct Live {
    sets: Box<[OnceLock<Box<Config>>]>,
    /// Index of the current set. Published after the set is stored: pairs with the load in `deref`.
    current: AtomicUsize,
    /// The index of each set, by its text. Held while a change is made.
    places: Mutex<BTreeMap<String, usize>>,
}

/// The settings were changed to more different sets than [`SETS_MAX`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the settings were changed to {SETS_MAX} different sets since the start, which is the most; start the broker again"
)]
pub(crate) struct TooManySets;

impl Live {
    pub(crate) fn new(config: Config) -> Self {
        let live = Self {
            sets: (0..SETS_MAX).map(|_| OnceLock::new()).collect(),
            current: AtomicUsize::new(0),
            places: Mutex::new(BTreeMap::from([(config.to_properties(), 0)])),
        };
        let stored = live.sets[0].set(Box::new(config));
        assert!(stored.is_ok(), "nobody else has it yet");
        live
    }

    /// Whether [`Self::replace`] would accept `next`, provided that no other change comes in between.
    pub(crate) fn admits(&self, next: &Config) -> Result<(), TooManySets> {
        let places = self.places.lock();
        let fits = places.len() < SETS_MAX || places.contains_key(&next.to_properties());
        if fits { Ok(()) } else { Err(TooManySets) }
    }

    /// Makes `next` the current settings.
    pub(crate) fn replace(&self, next: Config) -> Result<(), TooManySets> {
        let mut places = self.places.lock();
        let text = next.to_properties();
        let place = match places.get(&text) {
            Some(place) => *place,
            None => {
                let place = places.len();
                let set = self.sets.get(place).ok_or(TooManySets)?;
                assert!(set.set(Box::new(next)).is_ok(), "places are given out once");
                places.insert(text, place);
                place
            }
        };
        self.current.store(place, Ordering::Release);
        Ok(())
    }
}

impl Deref for Live {
    type Target = Config;

    fn deref(&self) -> &Config {
        self.sets[self.current.load(Ordering::Acquire)].get().expect("a set is stored before it is current")
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn sized(bytes: usize) -> Config {
        Config { max_message_size: bytes, ..Config::new("host", Ipv4Addr::LOCALHOST.into()) }
    }

    #[test]
    fn a_change_is_seen_and_what_was_read_before_stays() {
        let live = Live::new(sized(1));
        let before: &Config = &live;
        live.replace(sized(2)).unwrap();
        assert_eq!((before.max_message_size, live.max_message_size), (1, 2));
    }

    #[test]
    fn sets_that_come_again_take_no_place_and_too_many_are_refused() {
        let live = Live::new(sized(0));
        for bytes in [1, 0, 1, 2, 0, 3, 1, 2] {
            live.replace(sized(bytes)).unwrap();
            assert_eq!(live.max_message_size, bytes);
        }
        assert_eq!((live.admits(&sized(4)), live.admits(&sized(3))), (Err(TooManySets), Ok(())));
        assert_eq!(live.replace(sized(4)), Err(TooManySets));
        assert_eq!(live.max_message_size, 2);
    }
}
