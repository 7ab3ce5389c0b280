//! The files that keep a broker's id: `brokerIdentity` (`BrokerMetadata`), and `brokerIdentity-temp` while the controller has
//! not confirmed it (`TempBrokerMetadata`). Words are separated by `#`.

use thiserror::Error;
use wire::ha::BrokerId;

/// The id of a broker, as its file keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerIdentity {
    /// Cluster of the broker.
    pub cluster: String,
    /// Name of its broker set.
    pub name: String,
    /// The id.
    pub broker: BrokerId,
    /// Text of the application until the id is confirmed: `address;milliseconds`.
    pub check_code: Option<String>,
}

/// Errors of an identity file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdentityError {
    /// The text has not the format that a broker writes.
    #[error("expected `cluster#broker name#id`, found `{0}`")]
    Format(String),
    /// The file belongs to another broker than the configuration.
    #[error("the store belongs to broker `{found}`, but the configuration says `{expected}`")]
    OtherBroker {
        /// Cluster and name of the configuration.
        expected: String,
        /// Cluster and name of the file.
        found: String,
    },
}

impl BrokerIdentity {
    /// The text of `brokerIdentity`, or with a check code that of `brokerIdentity-temp`.
    pub fn to_file(&self) -> String {
        let Self { cluster, name, broker, check_code } = self;
        match check_code {
            Some(check_code) => format!("{cluster}#{name}#{broker}#{check_code}"),
            None => format!("{cluster}#{name}#{broker}"),
        }
    }

    /// Reads the text of either file.
    ///
    /// # Errors
    /// [`IdentityError::Format`] when the text has not three or four words, or no id.
    pub fn from_file(text: &str) -> Result<Self, IdentityError> {
        let format = || IdentityError::Format(text.to_owned());
        let words: Vec<&str> = text.trim_end().split('#').collect();
        let (cluster, name, id, check_code) = match words[..] {
            [cluster, name, id] => (cluster, name, id, None),
            [cluster, name, id, check_code] => (cluster, name, id, Some(check_code.to_owned())),
            _ => return Err(format()),
        };
        let broker = id.parse().ok().and_then(BrokerId::from_i64).ok_or_else(format)?;
        Ok(Self { cluster: cluster.to_owned(), name: name.to_owned(), broker, check_code })
    }

    /// Checks that the file belongs to the configured broker (`ReplicasManager.checkMetadataValid`).
    ///
    /// # Errors
    /// [`IdentityError::OtherBroker`] when cluster or name differ. A Java broker then keeps trying for ever; ours does not
    /// start.
    pub fn check(&self, cluster: &str, name: &str) -> Result<(), IdentityError> {
        if self.cluster == cluster && self.name == name {
            return Ok(());
        }
        let found = format!("{}#{}", self.cluster, self.name);
        Err(IdentityError::OtherBroker { expected: format!("{cluster}#{name}"), found })
    }
}
