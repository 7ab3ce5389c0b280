//! Topics, groups and offsets, with everything that is looked up by the name of a topic or group.

use crate::groups::Groups;
use crate::locks::Locks;
use crate::offsets::Offsets;
use crate::persist::ConfigFiles;
use crate::state::{Light, Modes, Ranking, Routes};
use crate::topics::Topics;

/// Tables of a broker by the name of a topic or group, and the files that keep the tables.
pub(crate) struct Tables {
    pub(crate) topics: Topics,
    pub(crate) groups: Groups,
    pub(crate) offsets: Offsets,
    /// Locks of ordered consumers on queues.
    pub(crate) locks: Locks,
    /// Request modes of groups: pull or pop.
    pub(crate) modes: Modes,
    /// Routes of topics at other brokers, for the assignment of queues.
    pub(crate) routes: Routes,
    /// Topics with the most messages.
    pub(crate) ranking: Ranking,
    /// Light queues, which are topics without an entry in the table of topics.
    pub(crate) light: Light,
    pub(crate) files: ConfigFiles,
}
