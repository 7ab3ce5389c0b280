//! Signed requests (`AclClientRPCHook`). A signed request has the user's access key and a signature with the user's
//! secret key. The signature covers the values of all fields in the order of their names, followed by the body
//! (`AclUtils.combineRequestContent`).

use std::hash::{BuildHasher as _, RandomState};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use sha1::Sha1;
use wire::fields::Fields;
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::seal::{SEAL, Seal};

/// Length of a signature in characters: twenty bytes in Base64.
pub const SIGNATURE_BYTES: usize = 28;

/// Name of the field with the access key.
pub const ACCESS_KEY: &str = "AccessKey";
/// Name of the field with the signature.
pub const SIGNATURE: &str = "Signature";

/// Access key and secret key of a user (`SessionCredentials`).
#[derive(Clone)]
pub struct Credentials {
    access_key: String,
    /// The secret key, with the blocks of HMAC-SHA1 that depend on it alone.
    key: Hmac<Sha1>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Makes credentials of an access key and a secret key.
    pub fn new(access_key: &str, secret_key: &str) -> Self {
        let key = Hmac::new_from_slice(secret_key.as_bytes()).expect("HMAC takes keys of any length");
        Self { access_key: access_key.to_owned(), key }
    }

    /// The access key.
    pub fn access_key(&self) -> &str {
        &self.access_key
    }

    /// Signs the concatenation of the parts: the values, then the body.
    pub fn sign<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; SIGNATURE_BYTES] {
        let mut mac = self.key.clone();
        parts.into_iter().for_each(|part| mac.update(part));
        let mut signature = [0; SIGNATURE_BYTES];
        let written = STANDARD.encode_slice(mac.finalize().into_bytes(), &mut signature);
        assert_eq!(written, Ok(SIGNATURE_BYTES), "twenty bytes make 28 characters");
        signature
    }
}

/// The fields of a request that are signed, in the order of their names.
pub fn signed_fields<'a>(fields: &Fields<'a>) -> Vec<(&'a [u8], &'a [u8])> {
    let mut signed: Vec<_> = fields.iter().filter(|(name, _)| *name != SIGNATURE.as_bytes()).collect();
    signed.sort_unstable();
    signed
}

/// A request that was encoded once to compute its signature.
#[derive(Debug)]
pub struct SignedRequest {
    frame: Vec<u8>,
    seal: Option<String>,
    signature: [u8; SIGNATURE_BYTES],
}

impl SignedRequest {
    /// Signs the request that `write` encodes.
    pub fn new(credentials: &Credentials, write: impl FnOnce(FrameWriter<'_>)) -> Self {
        Self::with(credentials, None, write)
    }

    /// Signs the request that `write` encodes, with a seal when requests of this code have one ([`wire::seal`]).
    pub fn sealed(
        credentials: &Credentials,
        code: i32,
        receiver: &str,
        write: impl FnOnce(FrameWriter<'_>),
    ) -> Self {
        let seal = wire::seal::is_sealed(code).then(|| {
            let nonce = nonce();
            Seal { code, time_ms: crate::now_ms(), nonce: &nonce, receiver }.to_string()
        });
        Self::with(credentials, seal, write)
    }

    fn with(credentials: &Credentials, seal: Option<String>, write: impl FnOnce(FrameWriter<'_>)) -> Self {
        let mut frame = Vec::new();
        let writer = FrameWriter::begin(&mut frame, Head::request(Encoding::Binary, 0, 0));
        write(writer.text(ACCESS_KEY, credentials.access_key()));
        let signature = {
            let command = decode(&mut frame);
            let mut fields = signed_fields(&command.fields);
            // A forwarded request keeps the seal of its first sender.
            fields.retain(|(name, _)| *name != SEAL.as_bytes());
            fields.extend(seal.as_deref().map(|seal| (SEAL.as_bytes(), seal.as_bytes())));
            fields.sort_unstable();
            let values = fields.into_iter().map(|(_, value)| value);
            credentials.sign(values.chain([command.body]))
        };
        Self { frame, seal, signature }
    }

    /// Writes the request with its signature.
    pub fn write(mut self, writer: FrameWriter<'_>) {
        let command = decode(&mut self.frame);
        let name = |name| str::from_utf8(name).expect("names are ours");
        let fields = command.fields.iter().filter(|(key, _)| *key != SEAL.as_bytes());
        let writer = fields.fold(writer, |writer, (key, value)| writer.bytes(name(key), value));
        let writer = writer.maybe(SEAL, self.seal.as_deref());
        writer.bytes(SIGNATURE, &self.signature).finish(command.body);
    }
}

/// A nonce: a text that no other request has.
pub(crate) fn nonce() -> String {
    let random = || RandomState::new().hash_one(crate::now_ms());
    format!("{:016x}{:016x}", random(), random())
}

fn decode(frame: &mut [u8]) -> Command<'_> {
    Command::decode_own(frame).expect("it was written here")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the signature that RocketMQ's Java client makes with its own default key and secret.
    fn check(write: impl FnOnce(FrameWriter<'_>), body: &[u8], expected: &str) {
        let signed = SignedRequest::new(&Credentials::new("rocketmq2", "12345678"), write);
        let mut frame = Vec::new();
        signed.write(FrameWriter::begin(&mut frame, Head::request(Encoding::Json, 310, 7)));
        let command = Command::decode(&mut frame).unwrap();
        assert_eq!(command.fields.text(SIGNATURE), Some(expected));
        assert_eq!((command.fields.text(ACCESS_KEY), command.body), (Some("rocketmq2"), body));
    }

    #[test]
    fn requests_are_signed_as_by_javas_client() {
        check(|frame| frame.text("topic", "TopicTest").finish(b""), b"", "GeeGoP9mRvDhoVp4PD5omX0prgE=");
        let fields = [
            ("m", "false"),
            ("a", "PG"),
            ("b", "TopicTest"),
            ("c", "TBW102"),
            ("d", "4"),
            ("e", "0"),
            ("f", "0"),
            ("g", "1700000000000"),
            ("h", "0"),
            ("i", "TAGS\u{1}TagA\u{2}"),
            ("j", "0"),
            ("k", "false"),
        ];
        let write = |frame: FrameWriter<'_>| {
            let frame = fields.iter().fold(frame, |frame, (name, value)| frame.text(name, value));
            frame.finish(b"Hello");
        };
        check(write, b"Hello", "9AVnQ9zPlCcdYZLijlEWv0haWbo=");
    }

    #[test]
    fn a_seal_is_signed_and_takes_the_place_of_that_of_another_sender() {
        let credentials = Credentials::new("user", "secret");
        let write = |frame: FrameWriter<'_>| frame.text(SEAL, "of another").text("a", "b").finish(b"body");
        let sealed = |code| {
            let mut frame = Vec::new();
            let writer = FrameWriter::begin(&mut frame, Head::request(Encoding::Json, code, 7));
            SignedRequest::sealed(&credentials, code, "10.0.0.1:10911", write).write(writer);
            let command = Command::decode(&mut frame).unwrap();
            let values = signed_fields(&command.fields).into_iter().map(|(_, value)| value);
            let signature = credentials.sign(values.chain([command.body]));
            assert_eq!(command.fields.bytes(SIGNATURE), Some(&signature[..]));
            assert!(command.fields.iter().filter(|(name, _)| *name == SEAL.as_bytes()).count() <= 1);
            command.fields.text(SEAL).map(str::to_owned)
        };
        let (one, other) = (sealed(3005).unwrap(), sealed(3005).unwrap());
        let (one, other) = (Seal::parse(&one).unwrap(), Seal::parse(&other).unwrap());
        assert_eq!((one.code, one.receiver), (3005, "10.0.0.1:10911"));
        assert_ne!(one.nonce, other.nonce);
        assert_eq!(sealed(wire::codes::request::SEND_MESSAGE_V2), None);
    }

    #[test]
    fn an_empty_field_is_sent() {
        let signed =
            SignedRequest::new(&Credentials::new("user", "secret"), |frame| frame.text("i", "").finish(b""));
        let mut frame = Vec::new();
        signed.write(FrameWriter::begin(&mut frame, Head::request(Encoding::Json, 310, 7)));
        assert_eq!(Command::decode(&mut frame).unwrap().fields.text("i"), Some(""));
    }

    #[test]
    fn a_secret_is_not_shown() {
        let shown = format!("{:?}", Credentials::new("user", "hidden"));
        assert!(shown.contains("user") && !shown.contains("hidden"), "{shown}");
    }
}
