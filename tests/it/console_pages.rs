//! The pages of the console: each is served in both languages and as JSON; dead letters are given to their group once more.

use std::collections::BTreeSet;
use wire::codes::request;
use wire::id::OffsetId;

use crate::common::wire_client::{pull_header, send_header};
use crate::console::Console;
use crate::stage::{beat, eventually, heartbeat, open, property, records};

const PAGES: [&str; 22] = [
    "/",
    "/brokers",
    "/replication",
    "/proxies",
    "/runs",
    "/topics",
    "/groups",
    "/clients",
    "/messages",
    "/dlq",
    "/delays",
    "/transactions",
    "/pops",
    "/storage",
    "/access",
    "/operations",
    "/audit",
    "/logins",
    "/group?name=CG",
    "/groups?system=1&sort=-members",
    "/topics?type=all&sort=-in",
    "/topics?type=system",
];

#[test]
fn every_page_is_served_in_both_languages_and_as_json() {
    let console = Console::start(tempfile::tempdir().unwrap());
    let mut connection = open(console.server.setup().broker());
    connection.stored(&send_header("Orders", 0), b"one");
    beat(&mut connection, &heartbeat("c1", "CG", "Orders", "*", "", 1));
    for path in PAGES {
        let separator = if path.contains('?') { '&' } else { '?' };
        for (lang, title) in [("en", "<html lang=\"en\">"), ("zh", "<html lang=\"zh-CN\">")] {
            let page = console.ask(&format!("{path}{separator}lang={lang}"), &[], None);
            assert!(page.status == 200 && page.body.contains(title), "{path}: {} {}", page.status, page.body);
        }
        let path = if path == "/" { "/overview" } else { path };
        let data = console.ask(&format!("/api/v1{path}"), &[], None);
        assert!(data.status == 200 && data.head.contains("application/json"), "{path}: {}", data.body);
        serde_json::from_str::<serde_json::Value>(&data.body)
            .unwrap_or_else(|_| panic!("{path}: {}", data.body));
    }
    let storage = console.ask("/api/v1/storage", &[], None).body;
    assert!(
        storage.contains("\"setting\":\"fileReservedTime\"") && storage.contains("\"failures\":[]"),
        "{storage}"
    );
    let pops = console.ask("/api/v1/pops", &[], None).body;
    assert!(pops.contains("\"topic\":\"rmq_sys_REVIVE_LOG_DefaultCluster\""), "{pops}");
    let absent = console.ask("/api/v1/client?group=CG&id=nobody", &[], None);
    assert!(
        absent.status == 502 && absent.body.contains("The Consumer <CG> <nobody> not online"),
        "{}",
        absent.body
    );
}

#[test]
fn pages_of_messages_begin_with_the_newest_of_all_queues() {
    let console = Console::start(tempfile::tempdir().unwrap());
    let mut connection = open(console.server.setup().broker());
    // More than a page shows in the first queue, and one before all of them in another.
    connection.stored(&send_header("Orders", 3), b"the first of all");
    std::iter::repeat_n((), 60).for_each(|()| _ = connection.stored(&send_header("Orders", 0), b"many"));
    let page = |range: &str| -> serde_json::Value {
        let found = console.ask(&format!("/api/v1/messages?topic=Orders{range}"), &[], None).body;
        serde_json::from_str(&found).unwrap_or_default()
    };
    let newest = eventually("the topic is known", || Some(page("")).filter(|it| it["messages"].is_array()));
    let older = page(&format!("&end={}&skip={}", newest["next"][0], newest["next"][1]));
    let rows = |page: &serde_json::Value| page["messages"].as_array().cloned().unwrap_or_default();
    assert_eq!((rows(&newest).len(), rows(&older).len()), (50, 11));
    let all = [rows(&newest), rows(&older)].concat();
    let places: BTreeSet<String> = all.iter().map(|row| row["offset_id"].to_string()).collect();
    assert!(places.len() == 61 && all.iter().any(|row| row["body"] == "the first of all"), "{all:?}");
    assert!(older["next"].is_null(), "{older}");
}

#[test]
fn chosen_dead_letters_are_given_to_their_group_once_more() {
    let console = Console::start(tempfile::tempdir().unwrap());
    let mut connection = open(console.server.setup().broker());
    beat(&mut connection, &heartbeat("c1", "CG", "Hard", "*", "", 1));
    for body in [b"given up", b"left out"] {
        let sent = connection.send(&send_header("Hard", 0), body);
        let id = sent.field("msgId").unwrap().to_owned();
        let offset = OffsetId::parse(&id).unwrap().log_offset.get();
        let given_up = connection.call(
            request::CONSUMER_SEND_MSG_BACK,
            |writer| {
                let writer = writer.number("offset", offset).text("group", "CG").number("delayLevel", -1);
                let writer = writer.text("originMsgId", &id).text("originTopic", "Hard");
                writer.flag("unitMode", false).number("maxReconsumeTimes", 16)
            },
            &[],
        );
        assert_eq!(given_up.code, 0, "{given_up:?}");
    }
    // A dead letter topic is registered with the name server after its first message.
    let listed = eventually("the dead letters are listed", || {
        Some(console.ask("/api/v1/dlq?group=CG", &[], None).body).filter(|it| it.contains("left out"))
    });
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let letter = listed["messages"].as_array().unwrap().iter().find(|row| row["body"] == "given up").unwrap();
    let broker = letter["broker"].as_str().unwrap();
    let session = console.session("/dlq?group=CG");
    let form = format!("group=CG&chosen+{broker}+{}+{}=1", letter["queue"], letter["queue_offset"]);
    let answer = console.post("/dlq", &session, &form);
    assert!(
        answer.status == 200 && answer.body.contains("1 / 1 were given to the group once more"),
        "{}",
        answer.body
    );
    let again = records(&connection.pull(&pull_header("CG", "%RETRY%CG", 0, 0)));
    assert_eq!(again.iter().map(|record| record.1.as_slice()).collect::<Vec<_>>(), [b"given up"]);
    assert_eq!(property(&again[0].2, "RETRY_TOPIC"), Some("Hard"));
    let audit = console.ask("/api/v1/audit", &[], None).body;
    assert!(audit.contains("dlq resend group=CG"), "{audit}");
    let nothing = console.post("/dlq", &session, "group=CG");
    assert!(nothing.body.contains("Nothing was chosen"), "{}", nothing.body);
}
