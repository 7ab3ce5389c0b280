//! Keys with which the requests of a load are signed.

use client::Credentials;
use serde::{Deserialize, Serialize};

/// Access key and secret key of a user. Agents that share the load receive both in clear text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The access key (`AccessKey`) that the requests of a run are signed with.
    pub access_key: String,
    /// The secret key.
    pub secret_key: String,
}

impl Access {
    /// The credentials that the client signs requests with.
    pub fn credentials(&self) -> Credentials {
        Credentials::new(&self.access_key, &self.secret_key)
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}
