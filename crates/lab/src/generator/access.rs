//! Who signs the requests of a load.

use client::Credentials;
use serde::{Deserialize, Serialize};

/// A user's keys. Agents that share the load are told them as they are.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The user.
    pub access_key: String,
    /// The secret.
    pub secret_key: String,
}

impl Access {
    /// What requests are signed with.
    #[must_use]
    pub fn credentials(&self) -> Credentials {
        Credentials::new(&self.access_key, &self.secret_key)
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}
