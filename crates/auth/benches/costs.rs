//! Cost of authentication and authorization with 10,000 users and 100,000 entries: a signed send of 1 KiB, a
//! decision, a start and a change.

use std::hint::black_box;
use std::time::Duration;

use auth::{Action, Actions, Auth, AuthConfig, Permission, PlainFiles, Request, Resource, Signable, Subject};
use base64::Engine as _;
use hmac::{Hmac, Mac as _};
use sha1::Sha1;
use wire::body::{AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo};
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::json;

const USERS: usize = 10_000;
const ENTRIES: usize = 100_000;

fn main() {
    let home = tempfile::tempdir().expect("a directory");
    let mut config = AuthConfig::default();
    let package = "org.apache.rocketmq.auth";
    for (key, value) in [
        ("authenticationEnabled", "true".to_owned()),
        ("authorizationEnabled", "true".to_owned()),
        (
            "authenticationMetadataProvider",
            format!("{package}.authentication.provider.LocalAuthenticationMetadataProvider"),
        ),
        (
            "authorizationMetadataProvider",
            format!("{package}.authorization.provider.LocalAuthorizationMetadataProvider"),
        ),
    ] {
        assert!(config.set(key, &value));
    }
    let plain = PlainFiles { file: home.path().join("none.yml"), directory: home.path().join("acl") };
    for one_user_has_all in [false, true] {
        println!("{}", if one_user_has_all { "all entries of one user" } else { "ten entries per user" });
        fill(home.path(), one_user_has_all);
        let start = || Auth::open(&config, home.path(), &plain).expect("a start");
        let mut started = Vec::new();
        println!("  start: {:?}", best(5, || started.push(start())));
        drop(started);
        let auth = start();
        decisions(&auth, if one_user_has_all { ENTRIES } else { ENTRIES / USERS });
        if !one_user_has_all {
            send(&auth);
            let info = UserInfo { password: Some("another-secret".to_owned()), ..UserInfo::default() };
            let change = || auth.update_user(&Subject::Off, "user-00007", &info).expect("a change");
            println!("  change of a user: {:?}", best(5, change));
        }
    }
}

fn best(times: usize, mut run: impl FnMut()) -> Duration {
    let once = |run: &mut dyn FnMut()| {
        let from = processor_time();
        run();
        processor_time() - from
    };
    (0..times).map(|_| once(&mut run)).min().expect("at least once")
}

/// Processor time of this thread, so that other work of the machine does not count.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    Duration::from_nanos(text.split(' ').next().and_then(|it| it.parse().ok()).expect("a number"))
}

/// Returns the cost of a run, as the average of many runs.
fn each(mut run: impl FnMut(usize)) -> Duration {
    const RUNS: usize = 20_000;
    best(7, || (0..RUNS).for_each(&mut run)) / u32::try_from(RUNS).expect("it fits")
}

fn fill(home: &std::path::Path, one_user_has_all: bool) {
    let text = |text: &str| Some(text.to_owned());
    let user = |at: usize| UserInfo {
        username: Some(format!("user-{at:05}")),
        password: text("12345678"),
        user_type: text("Normal"),
        user_status: text("enable"),
    };
    let entry = |at: usize| PolicyEntryInfo {
        resource: Some(format!("Topic:topic-{at:06}{}", if at.is_multiple_of(2) { "*" } else { "" })),
        actions: Some(vec!["Pub".to_owned(), "Sub".to_owned()]),
        decision: text("Allow"),
        source_ips: Some(vec!["10.0.0.0/8".to_owned()]),
    };
    let acl = |at: usize, entries: Vec<PolicyEntryInfo>| AclInfo {
        policies: Some(vec![PolicyInfo { entries: Some(entries), policy_type: None }]),
        subject: Some(format!("User:user-{at:05}")),
    };
    let acls: Vec<_> = if one_user_has_all {
        vec![acl(0, (0..ENTRIES).map(entry).collect())]
    } else {
        (0..USERS).map(|user| acl(user, (0..ENTRIES / USERS).map(entry).collect())).collect()
    };
    let users: Vec<_> = (0..USERS).map(user).collect();
    std::fs::write(home.join("users.json"), json::to_vec(&users)).expect("a file");
    std::fs::write(home.join("acls.json"), json::to_vec(&acls)).expect("a file");
}

fn decisions(auth: &Auth, entries: usize) {
    let caller = "10.1.2.3".parse().expect("an address");
    let user = Subject::User("user-00000".into());
    for (what, suffix) in [("literal", ""), ("prefix", "-suffix")] {
        let odd = usize::from(suffix.is_empty());
        let names: Vec<_> =
            (0..entries.min(1000)).map(|at| format!("topic-{:06}{suffix}", at / 2 * 2 + odd)).collect();
        let cost = each(|at| {
            let resource = Resource::topic(&names[at % names.len()]);
            let needed = Permission::new(resource, Actions::of(&[Action::Pub]));
            let ruling = auth.decide(&user, Request::Code(310), caller, &[needed]);
            assert!(black_box(ruling).is_allowed());
        });
        println!("  decision by {what}: {cost:?}");
    }
    let none = Permission::new(Resource::topic("zzz"), Actions::of(&[Action::Pub]));
    let cost = each(|_| {
        assert!(
            !black_box(auth.decide(&user, Request::Code(310), caller, std::slice::from_ref(&none)))
                .is_allowed()
        );
    });
    println!("  decision without a match: {cost:?}");
}

/// Decodes a send of 1 KiB with and without checking its signature.
fn send(auth: &Auth) {
    let fields = [
        ("a", "PG"),
        ("b", "TopicTest"),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", "0"),
        ("f", "0"),
        ("g", "1700000000000"),
        ("h", "0"),
        ("i", "UNIQ_KEY\u{1}0A0000010000000000000000\u{2}WAIT\u{1}true\u{2}"),
        ("j", "0"),
        ("k", "false"),
        ("m", "false"),
        ("AccessKey", "user-00007"),
    ];
    let body = vec![b'x'; 1024];
    let mut sorted = fields;
    sorted.sort_unstable();
    let mut mac = Hmac::<Sha1>::new_from_slice(b"12345678").expect("a key");
    sorted.iter().for_each(|(_, value)| mac.update(value.as_bytes()));
    mac.update(&body);
    let signature = base64::engine::general_purpose::STANDARD.encode(mac.finalize().into_bytes());
    let mut frame = Vec::new();
    let writer = FrameWriter::begin(&mut frame, Head::request(Encoding::Binary, 310, 7));
    let writer = fields.iter().fold(writer, |writer, (name, value)| writer.text(name, value));
    writer.text("Signature", &signature).finish(&body);
    let plain = each(|_| {
        black_box(Command::decode(&mut frame).expect("a frame"));
    });
    let signed = each(|_| {
        let command = Command::decode(&mut frame).expect("a frame");
        black_box(auth.verify(&Signable::from(&command)).expect("the signature holds"));
    });
    println!("  signature of a send of 1 KiB: {:?} (decoding alone {plain:?})", signed.saturating_sub(plain));
}
