use super::*;
use crate::testing::{VECTOR, with_request};
use proptest::prelude::*;
use wire::frame::Encoding;

/// Whether the secret of the vectors verifies a request.
fn holds(signed: &Signable<'_>, older: UnsignedQuery) -> bool {
    let key = SigningKey::new("12345678");
    signed.signature().is_some_and(|signature| key.verify(signed.parts(older), &signature))
}

fn check(fields: &[(&'static str, &str)], body: &[u8], expected: bool) {
    for encoding in [Encoding::Json, Encoding::Binary] {
        let found = with_request(encoding, fields, body, |signed| holds(&signed, UnsignedQuery::ByVersion));
        assert_eq!(found, expected, "{encoding:?} {fields:?} {body:?}");
    }
}

/// The fields of a send, with the signature of Java's client.
const SEND: [(&str, &str); 14] = [
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
    ("m", "false"),
    ("AccessKey", "rocketmq2"),
    (SIGNATURE, "9AVnQ9zPlCcdYZLijlEWv0haWbo="),
];

/// The signature of values that are concatenated, by the rule as the specification writes it.
fn sign(content: &str) -> String {
    let mut mac = Hmac::<Sha1>::new_from_slice(b"12345678").unwrap();
    mac.update(content.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

#[test]
fn both_vectors_verify_and_no_changed_byte_does() {
    check(&VECTOR, b"", true);
    check(&SEND, b"Hello", true);
    check(&SEND, b"Hellp", false);
    check(&SEND, b"", false);
    for at in 0..SEND.len() - 1 {
        let mut fields = SEND;
        let changed = format!("{}0", fields[at].1);
        fields[at].1 = &changed;
        check(&fields, b"Hello", false);
    }
    check(&VECTOR[..2], b"", false);
}

#[test]
fn neither_order_nor_encoding_matters() {
    let mut fields = SEND;
    fields.reverse();
    check(&fields, b"Hello", true);
    fields.rotate_left(5);
    check(&fields, b"Hello", true);
}

#[test]
fn a_field_nobody_knows_is_signed() {
    let mut fields = VECTOR.to_vec();
    fields.push(("zzz", "1"));
    check(&fields, b"", false);
    let signature = sign("rocketmq2TopicTest1");
    fields[2].1 = &signature;
    check(&fields, b"", true);
}

#[test]
fn old_clients_add_a_field_after_they_signed() {
    let added = [&VECTOR[..], &[(ADDED_LATER, "true")]].concat();
    let signature = sign("rocketmq2trueTopicTest");
    let mut included = added.clone();
    included[2].1 = &signature;
    for (version, older, is_left_out) in [
        (VERSION_4_9_3, UnsignedQuery::ByVersion, true),
        (0, UnsignedQuery::ByVersion, true),
        (VERSION_4_9_3 + 1, UnsignedQuery::ByVersion, false),
        (wire::codes::VERSION, UnsignedQuery::ByVersion, false),
        (wire::codes::VERSION, UnsignedQuery::Always, true),
    ] {
        for (fields, expected) in [(&added, is_left_out), (&included, !is_left_out)] {
            let found = with_request(Encoding::Json, fields, b"", |signed| {
                holds(&Signable { version, ..signed }, older)
            });
            assert_eq!(found, expected, "{version} {older:?}");
        }
    }
}

#[test]
fn security_tokens_are_signed() {
    let signature = sign("rocketmq2tokenTopicTest");
    let mut fields = [&VECTOR[..], &[("SecurityToken", "token")]].concat();
    check(&fields, b"", false);
    fields[2].1 = &signature;
    check(&fields, b"", true);
}

#[test]
fn of_a_repeated_field_the_last_value_counts() {
    let fields = [&[("topic", "Other")], &VECTOR[..]].concat();
    check(&fields, b"", true);
    let fields = [&VECTOR[..], &[("topic", "Other")]].concat();
    check(&fields, b"", false);
}

#[test]
fn names_are_in_the_order_of_utf_16() {
    // U+FF5E is one unit behind the surrogates that U+1F600 is made of.
    let signature = sign("rocketmq2TopicTestface wave");
    let fields: [(&'static str, &str); 5] =
        [VECTOR[0], VECTOR[1], (SIGNATURE, &signature), ("\u{FF5E}", " wave"), ("\u{1F600}", "face")];
    check(&fields, b"", true);
}

const RIGHT: &str = "c6fc09021280e20533c17364f135c0e3217d83e9";

fn grpc<'a>(authorization: &'a str, date_time: &'a str) -> Metadata<'a> {
    Metadata { message: "m", authorization: Some(authorization), date_time: Some(date_time) }
}

#[test]
fn the_vector_of_grpc_verifies_in_any_case_and_all_shapes() {
    let upper = RIGHT.to_uppercase();
    for signature in [RIGHT, &upper] {
        for credential in ["AK/region/service", "AK/region", "AK"] {
            let text = format!(
                "MQv2-HMAC-SHA1 Credential={credential}, SignedHeaders=x-mq-date-time, Signature={signature}"
            );
            let metadata = grpc(&text, "20240101T000000Z");
            let credentials = metadata.credentials().unwrap();
            assert_eq!(credentials.user, "AK");
            let content = [credentials.content.as_bytes()].into_iter();
            assert!(SigningKey::new("12345678").verify(content, &credentials.signature.unwrap()));
        }
    }
}

#[test]
fn malformed_credentials_of_grpc_have_their_texts() {
    let check = |authorization: Option<&str>, date_time: Option<&str>, expected: &str| {
        let error = Metadata { message: "m", authorization, date_time }.credentials().unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (16, expected), "{authorization:?}");
    };
    check(None, Some("d"), "username cannot be null.");
    check(Some(""), Some("d"), "username cannot be null.");
    check(Some("a Credential=u"), None, "datetime is null.");
    check(Some("a Credential=u"), Some(""), "datetime is null.");
    let check = |text: &str, expected: &str| check(Some(text), Some("d"), expected);
    check("MQv2-HMAC-SHA1", "authentication header is incorrect.");
    check("a ", "authentication keyValues length is incorrect, actual length=1.");
    check("a Credential", "authentication keyValues length is incorrect, actual length=1.");
    check("a ,Credential=u", "authentication keyValues length is incorrect, actual length=1.");
    check("a Credential=", "authentication credential length is incorrect, actual length=0.");
    check("a Credential=/", "authentication credential length is incorrect, actual length=0.");
    check("a Credential=/r", "username cannot be null.");
    check("a Signature=00", "username cannot be null.");
    check("a Credential=u,Signature=0", "create authentication context error.");
    check("a Credential=u,Signature=zz", "create authentication context error.");
    check("a Credential=u,Signature=\u{e9}", "create authentication context error.");
}

#[test]
fn odd_credentials_of_grpc_are_read_as_by_java() {
    fn read(text: &str) -> (String, bool) {
        grpc(text, "d").credentials().map(|it| (it.user.to_owned(), it.signature.is_some())).unwrap()
    }
    assert_eq!(read("a Credential=u,,"), ("u".to_owned(), false));
    assert_eq!(read("a   Credential=u=v/x , Signature=00"), ("u=v".to_owned(), false));
    assert_eq!(read(&format!("a Credential=u,Credential=v,Signature={RIGHT}")), ("v".to_owned(), true));
    assert_eq!(read(&format!("a Credential=u,Signature={RIGHT}00")), ("u".to_owned(), false));
}

proptest! {
    #[test]
    fn no_credentials_panic(
        authorization in "[ -~\u{e9}]{0,64}|(a )?(Credential=|Signature=|[0-9a-f]{0,50}|/|,| |=|u){0,12}",
        date_time in "\\PC{0,4}",
        signature in "[A-Za-z0-9+/=]{0,40}",
        fields in proptest::collection::vec(("[A-Za-z_\u{E000}\u{10000}]{0,3}", "\\PC{0,6}"), 0..8),
    ) {
        let _ = grpc(&authorization, &date_time).credentials();
        let fields: Vec<(&'static str, &str)> =
            fields.iter().map(|(name, value)| (&*name.clone().leak(), value.as_str())).collect();
        let fields = [&fields[..], &[(SIGNATURE, &signature)]].concat();
        check(&fields, b"", false);
    }

    /// The parts are those of a sorted map, as Java makes it.
    #[test]
    fn parts_are_those_of_a_sorted_map(fields in proptest::collection::vec(("[a-d]{1,2}", "[x-z]{1,2}"), 0..12)) {
        let fields: Vec<(&'static str, &str)> =
            fields.iter().map(|(name, value)| (&*name.clone().leak(), value.as_str())).collect();
        let expected: std::collections::BTreeMap<_, _> = fields.iter().copied().collect();
        let expected: String = expected.into_values().collect();
        let found = with_request(Encoding::Binary, &fields, b"", |signed| {
            signed.parts(UnsignedQuery::Always).flatten().copied().collect::<Vec<_>>()
        });
        prop_assert_eq!(found, expected.into_bytes());
    }
}
