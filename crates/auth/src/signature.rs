//! Signatures of requests: HMAC-SHA1 with the user's secret, over the bytes that were received.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use sha1::Sha1;
use wire::codes::VERSION_4_9_4;
use wire::fields::Fields;
use wire::frame::Command;

use crate::error::{AuthError, Result};

/// Name of the field with the name of the user.
pub const ACCESS_KEY: &str = "AccessKey";
/// Name of the field with the signature, which is the only unsigned field.
pub const SIGNATURE: &str = "Signature";
/// Name of the field with the token of temporary credentials (`SessionCredentials.SECURITY_TOKEN`). It is signed like
/// every other field, and not used here.
pub const SECURITY_TOKEN: &str = "SecurityToken";
/// Clients up to [`VERSION_4_9_3`] add this field after they signed (`MixAll.UNIQUE_MSG_QUERY_FLAG`).
const ADDED_LATER: &str = "_UNIQUE_KEY_QUERY";
/// Last version that adds a field after it signed (`V4_9_3`). A snapshot version lies between it and the next
/// release.
const VERSION_4_9_3: i32 = VERSION_4_9_4 - 2;

pub(crate) const SIGNATURE_BYTES: usize = 20;

/// A user's secret, prepared for checking signatures: two of the blocks of HMAC-SHA1 are computed once per user.
#[derive(Clone)]
pub(crate) struct SigningKey(Hmac<Sha1>);

impl SigningKey {
    pub(crate) fn new(secret: &str) -> Self {
        Self(Hmac::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length"))
    }

    /// The signature of the parts, as the text of a field.
    pub(crate) fn sign(&self, parts: &[&[u8]]) -> String {
        let mut mac = self.0.clone();
        parts.iter().for_each(|part| mac.update(part));
        STANDARD.encode(mac.finalize().into_bytes())
    }

    /// Whether `signature` is that of the parts, compared in constant time.
    pub(crate) fn verify<'a>(&self, parts: impl Iterator<Item = &'a [u8]>, signature: &[u8]) -> bool {
        let mut mac = self.0.clone();
        for part in parts {
            #[cfg(test)]
            crate::testing::HASHED_BYTES.set(crate::testing::HASHED_BYTES.get() + part.len());
            mac.update(part);
        }
        mac.verify_slice(signature).is_ok()
    }
}

/// Parts of a remoting request that its signature covers. The values are the received bytes, never encoded again.
#[derive(Clone, Copy, Debug)]
pub struct Signable<'a> {
    /// Request code.
    pub code: i32,
    /// Version ordinal of the client.
    pub version: i32,
    /// Header fields.
    pub fields: &'a Fields<'a>,
    /// Received body.
    pub body: &'a [u8],
}

impl<'a> From<&'a Command<'a>> for Signable<'a> {
    fn from(command: &'a Command<'a>) -> Self {
        Self { code: command.code, version: command.version, fields: &command.fields, body: command.body }
    }
}

impl<'a> Signable<'a> {
    /// Returns the name of the signing user in the request.
    pub(crate) fn access_key(&self) -> Option<&'a str> {
        self.fields.text(ACCESS_KEY).filter(|name| !name.trim().is_empty())
    }

    /// Returns the signature of the request, or `None` if it is missing or not the Base64 text of twenty bytes.
    pub(crate) fn signature(&self) -> Option<[u8; SIGNATURE_BYTES]> {
        let text = self.fields.bytes(SIGNATURE)?;
        let mut bytes = [0; SIGNATURE_BYTES + 1];
        let length = STANDARD.decode_slice(text, &mut bytes).ok()?;
        bytes[..length].try_into().ok()
    }

    /// Returns the signed bytes: the values of all fields in the order of their names, then the body. The last value
    /// of a repeated field counts. `older` decides about the field that old clients add after they signed.
    pub(crate) fn parts(&self, older: UnsignedQuery) -> impl Iterator<Item = &'a [u8]> {
        let is_left_out = |name: &[u8]| {
            name == SIGNATURE.as_bytes()
                || name == ADDED_LATER.as_bytes()
                    && (older == UnsignedQuery::Always || self.version <= VERSION_4_9_3)
        };
        let mut fields: Vec<_> = self.fields.iter().filter(|(name, _)| !is_left_out(name)).collect();
        // The sort is stable: of equal names the last one received stays last.
        fields.sort_by(|(one, _), (other, _)| in_java_order(one).cmp(in_java_order(other)));
        fields.reverse();
        fields.dedup_by_key(|(name, _)| *name);
        fields.into_iter().rev().map(|(_, value)| value).chain([self.body])
    }
}

/// When `_UNIQUE_KEY_QUERY` is not signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnsignedQuery {
    /// Clients up to 4.9.3 (Auth 2.0).
    ByVersion,
    /// Every client (`PlainAccessResource.parse`).
    Always,
}

/// The bytes of a name, ordered as Java orders its UTF-16 units: characters beyond the basic plane come before U+E000.
fn in_java_order(name: &[u8]) -> impl Iterator<Item = u8> + '_ {
    name.iter().map(|byte| if matches!(byte, 0xEE | 0xEF) { byte + 0x10 } else { *byte })
}

/// The credentials of a gRPC request.
#[derive(Clone, Copy, Debug)]
pub struct Metadata<'a> {
    /// Full name of the request message, such as `apache.rocketmq.v2.QueryRouteRequest`.
    pub message: &'a str,
    /// The metadata `authorization`.
    pub authorization: Option<&'a str>,
    /// The metadata `x-mq-date-time`, which is all that is signed.
    pub date_time: Option<&'a str>,
}

/// The user and signature that the metadata of a gRPC request names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GrpcCredentials<'a> {
    pub(crate) user: &'a str,
    pub(crate) signature: Option<[u8; SIGNATURE_BYTES]>,
    pub(crate) content: &'a str,
}

impl<'a> Metadata<'a> {
    /// Returns the name of the user in the request. Empty if it is unreadable.
    pub fn user(&self) -> &'a str {
        self.credentials().map(|credentials| credentials.user).unwrap_or_default()
    }

    /// Reads the credentials (`DefaultAuthenticationContextBuilder.build`).
    ///
    /// # Errors
    /// [`AuthError::NoCredentials`], [`AuthError::NoDateTime`], [`AuthError::Header`], [`AuthError::KeyValue`],
    /// [`AuthError::Credential`] and [`AuthError::Context`], each for the part that is missing or malformed.
    pub(crate) fn credentials(&self) -> Result<GrpcCredentials<'a>> {
        let authorization = self.authorization.filter(|it| !it.is_empty()).ok_or(AuthError::NoCredentials)?;
        let content = self.date_time.filter(|it| !it.is_empty()).ok_or(AuthError::NoDateTime)?;
        let (_, items) = authorization.split_once(' ').ok_or(AuthError::Header)?;
        let (mut user, mut signature) = (None, None);
        // Java's split drops empty items at the end.
        for item in items.trim_end_matches(',').split(',') {
            match item.trim().split_once('=').ok_or(AuthError::KeyValue)? {
                ("Credential", credential) => {
                    if credential.trim_end_matches('/').is_empty() {
                        return Err(AuthError::Credential);
                    }
                    user = credential.split('/').next();
                }
                ("Signature", text) => signature = Some(hexadecimal(text).ok_or(AuthError::Context)?),
                _ => {}
            }
        }
        let user = user.filter(|name| !name.trim().is_empty()).ok_or(AuthError::NoCredentials)?;
        let signature = signature.and_then(|bytes| bytes.try_into().ok());
        Ok(GrpcCredentials { user, signature, content })
    }
}

/// Returns the bytes of a hexadecimal text in any case, or `None` for invalid text. Longer text than a signature is
/// not read.
fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks(2).take(4 * SIGNATURE_BYTES);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests;
