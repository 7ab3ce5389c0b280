//! Users and acls in requests 3001 to 3010.

use serde::{Deserialize, Serialize};

/// Version of a broker's users and acls, a field of requests 3005 and 3010 and of their responses. RocketMQ does not
/// know the field. A broker that gets its current version in a request responds without a body.
pub const USERS_VERSION: &str = "vostokUsersVersion";

/// Field of requests 3005 and 3010: a random text that no other request has. RocketMQ does not know the field.
/// The [`PROOF`] in the response signs the text, so that a recorded response proves nothing about a later request.
pub const NONCE: &str = "vostokNonce";

/// Longest nonce that is answered.
pub const NONCE_BYTES_MAX: usize = 64;

/// Field of the responses to requests with a [`NONCE`]: the signature of [`proven_head`] and the body, with the
/// secret of the requesting user. Only a broker that knows the secret can make the signature.
pub const PROOF: &str = "vostokProof";

/// The beginning of a proof's content, before the body of the response. The first byte is zero. The content of a signed request never
/// begins with zero, so that no signature of a request is a proof.
pub fn proven_head(code: i32, nonce: &str, version: &str) -> String {
    format!("\0vostok-answer\0{code}\0{nonce}\0{version}\0")
}

/// User (`UserInfo`). Absent members stay unchanged in an update.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UserInfo {
    /// The user's secret in clear text; signatures cannot be verified without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// `enable` or `disable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_status: Option<String>,
    /// `Super` or `Normal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_type: Option<String>,
    /// The user's name, which is the access key of its requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
}

impl std::fmt::Debug for UserInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserInfo")
            .field("username", &self.username)
            .field("user_type", &self.user_type)
            .field("user_status", &self.user_status)
            .finish_non_exhaustive()
    }
}

/// The policies of a subject (`AclInfo`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AclInfo {
    /// The policies, at most one of each type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<Vec<PolicyInfo>>,
    /// `User:` and the user's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// Policy of an acl (`AclInfo.PolicyInfo`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyInfo {
    /// Entries that allow or deny actions on resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<PolicyEntryInfo>>,
    /// `Custom` or `Default`; absent means `Custom`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_type: Option<String>,
}

/// Entry of a policy (`AclInfo.PolicyEntryInfo`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyEntryInfo {
    /// Names of actions such as `Pub`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actions: Option<Vec<String>>,
    /// `Allow` or `Deny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Text of a resource such as `Topic:orders*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Addresses and ranges from which the entry counts; absent or empty means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_ips: Option<Vec<String>>,
}
