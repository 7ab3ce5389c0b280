use wire::codes::{request, response};

use super::*;
use crate::Result;
use crate::remoting::Answer;
use crate::testing::{Fixture, real_files, settled};
use wire::json;

const JAVA: &[u8] = include_bytes!("../golden/subscriptionGroup.json");

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("subscriptionGroup.json")
    }

    fn open(&self) -> Groups {
        Groups::load(real_files(self.0.path()).file("subscriptionGroup.json")).unwrap()
    }
}

/// Creates or changes a group by the JSON of request 200.
fn put(groups: &Groups, body: &str) -> Result<Answer> {
    settled(groups, 9, || {
        put_group(json::from_slice(body.as_bytes())?)?;
        Ok(Answer::success())
    })
}

fn refusal<T: std::fmt::Debug>(result: Result<T>) -> (i32, String) {
    let refusal = result.unwrap_err();
    (refusal.code, refusal.remark.into_owned())
}

#[test]
fn a_new_broker_has_the_system_groups() {
    let folder = Folder::new();
    let groups = folder.open();
    for name in names::SYSTEM_GROUPS {
        assert_eq!(*groups.find(name).unwrap(), SubscriptionGroupConfig::new(name));
    }
    assert!(!folder.path().exists(), "nothing was changed");
}

#[test]
fn a_file_of_java_loads_and_survives_a_change() {
    let folder = Folder::new();
    std::fs::write(folder.path(), JAVA).unwrap();
    let groups = folder.open();
    assert_eq!(groups.find("GID_2").unwrap().retry_max_times, 3);
    assert_eq!(groups.snapshot(), json::from_slice(JAVA).unwrap());
    groups.make("new", 77).unwrap();
    let mut expected: SubscriptionGroupTable = json::from_slice(JAVA).unwrap();
    expected.data_version.advance(0, 77);
    expected.subscription_group_table.insert("new".to_owned(), SubscriptionGroupConfig::new("new"));
    assert_eq!(folder.open().snapshot(), expected);
    assert_eq!((expected.data_version.counter, expected.data_version.timestamp), (4, 77));
}

#[test]
fn unknown_members_are_kept_over_changes() {
    let folder = Folder::new();
    let text = r#"{"dataVersion":{},"newTable":{"x":1},"subscriptionGroupTable":{"g":{"groupName":"g","newMember":[1]}}}"#;
    std::fs::write(folder.path(), text).unwrap();
    folder.open().make("h", 1).unwrap();
    let table = folder.open().snapshot();
    assert_eq!(table.extra["newTable"], serde_json::json!({"x": 1}));
    assert_eq!(table.subscription_group_table["g"].extra["newMember"], serde_json::json!([1]));
}

#[test]
fn groups_are_created_on_demand_when_it_is_allowed_and_the_name_is_legal() {
    let folder = Folder::new();
    let groups = folder.open();
    let exists = |name, auto_create| {
        let mut found = None;
        let served = settled(&groups, 5, || {
            found = groups.find_or_create(name, auto_create)?;
            Ok(Answer::success())
        });
        served.is_ok() && found.is_some()
    };
    assert!(!exists("g", false));
    assert!(exists("g", true) && exists("g", false));
    assert!(exists("CID_RMQ_SYS_NEW", false));
    assert!(!exists("bad name", true) && !exists("", true) && !exists(&"g".repeat(121), true));
    assert_eq!(groups.snapshot().data_version.counter, 2);
    assert_eq!(groups.find("g").unwrap().retry_max_times, 16);
}

#[test]
fn whoever_asks_for_a_group_that_may_be_created_creates_it() {
    let get = |fixture: &Fixture, group: &str| {
        let (code, remark, body) =
            fixture.ask(request::GET_SUBSCRIPTIONGROUP_CONFIG, &[("group", group)], b"");
        assert!(code == 0 || remark == "No group in this broker", "{remark}");
        (code, json::from_slice::<SubscriptionGroupConfig>(&body).ok())
    };
    let missing = (response::SUBSCRIPTION_GROUP_NOT_EXIST, None);
    let made = |name: &str| (response::SUCCESS, Some(SubscriptionGroupConfig::new(name)));
    let fixture = Fixture::new();
    assert_eq!(get(&fixture, "g"), made("g"));
    assert!(fixture.broker.tables.groups.find("g").is_some());
    assert_eq!(get(&fixture, "bad name"), missing);
    let closed = Fixture::with(|config| config.auto_create_subscription_group = false);
    assert_eq!(get(&closed, "g"), missing);
    assert_eq!(get(&closed, "CID_RMQ_SYS_NEW"), made("CID_RMQ_SYS_NEW"));
}

#[test]
fn nothing_changes_when_the_file_cannot_be_written() {
    let folder = Folder::new();
    let groups = folder.open();
    std::fs::create_dir(folder.0.path().join("subscriptionGroup.json.tmp")).unwrap();
    assert!(groups.make("g", 5).is_err());
    let error = groups.put(SubscriptionGroupConfig::new("g"), 5).unwrap_err();
    assert!(error.to_string().contains("subscriptionGroup.json.tmp"), "{error}");
    assert!(groups.find("g").is_none());
    assert_eq!(groups.snapshot().data_version.counter, 0);
}

#[test]
fn groups_are_updated_shown_listed_and_deleted() {
    let folder = Folder::new();
    let groups = folder.open();
    put(
        &groups,
        r#"{"groupName":"g","retryMaxTimes":3,"attributes":{"+priority.factor":"1","+lite.bind.topic":"2"}}"#,
    )
    .unwrap();
    put(&groups, r#"{"groupName":"g","retryMaxTimes":4,"attributes":{"-priority.factor":""}}"#).unwrap();
    let get = |name| found(groups.find_or_create(name, false)?);
    let shown = get("g").unwrap();
    assert_eq!(shown.retry_max_times, 4);
    assert_eq!(shown.attributes, BTreeMap::from([("lite.bind.topic".to_owned(), "2".to_owned())]));
    assert_eq!(refusal(get("h")), (26, "No group in this broker".to_owned()));

    let all = |first, count| {
        let (total, table) = page(&groups, first, count);
        (total, table.subscription_group_table.len())
    };
    assert_eq!(all(0, None), (9, 9));
    assert_eq!(all(8, Some(5)), (9, 1));

    for (name, clean_offsets) in [("g", false), ("h", true)] {
        settled(&groups, 9, || delete_group(name, clean_offsets).map(|()| Answer::success())).unwrap();
    }
    assert!(folder.open().find("g").is_none());
}

#[test]
fn bad_groups_are_refused_with_the_value_and_the_limit() {
    let folder = Folder::new();
    let groups = folder.open();
    let check = |body: &str, expected: (i32, &str)| {
        let (code, remark) = refusal(put(&groups, body));
        assert!(code == expected.0 && remark.contains(expected.1), "{code} {remark}");
    };
    check("{}", (29, "The specified group is blank."));
    check(r#"{"groupName":"a b"}"#, (29, "The specified group: a b, contains illegal characters"));
    check(r#"{"groupName":"g","retryQueueNums":-2}"#, (29, "retryQueueNums is -2, expected 0 to 65535"));
    check(r#"{"groupName":"g","retryMaxTimes":-2}"#, (29, "retryMaxTimes is -2, expected -1 or more"));
    check(r#"{"groupName":"g","attributes":{"+":"1"}}"#, (29, "attribute name \"+\" is empty"));
    let attributes = [
        (r#""+priority.facto":"1""#, "unsupported key: priority.facto"),
        (r#""+priority.factor":"101""#, "value is not in range: priority.factor is 101, expected 0 to 100"),
        (r#""priority.factor":"-1""#, "value is not in range: priority.factor is -1, expected 0 to 100"),
        (
            r#""+lite.sub.model":"Any""#,
            "value is not in set: lite.sub.model is Any, expected one of Shared, Exclusive",
        ),
        (r#""+lite.sub.reset.offset.exclusive":"yes""#, "boolean attribute format is wrong."),
        (r#""+lite.sub.client.max.event.cnt":"9""#, "expected 10 or more"),
        (
            r#""-priority.factor":"""#,
            "only add attribute is supported while creating topic. key: priority.factor",
        ),
        (r#""+priority.factor":"1","priority.factor":"2""#, "alter duplication key. key: priority.factor"),
    ];
    for (attribute, remark) in attributes {
        check(&format!(r#"{{"groupName":"g","attributes":{{{attribute}}}}}"#), (1, remark));
    }
    assert!(groups.find("g").is_none());
    groups.make("g", 1).unwrap();
    let missing = r#"{"groupName":"g","attributes":{"-priority.factor":""}}"#;
    check(missing, (1, "attempt to delete a nonexistent key: priority.factor"));
    check("{", (1, "the request body is not the JSON expected"));
}

#[test]
fn a_topic_is_closed_for_a_group_by_its_mask() {
    let folder = Folder::new();
    std::fs::write(folder.path(), r#"{"forbiddenTable":{"g":{"T":4,"U":2}}}"#).unwrap();
    let groups = folder.open();
    assert!(groups.is_read_forbidden("g", "T"));
    assert!(!groups.is_read_forbidden("g", "U") && !groups.is_read_forbidden("h", "T"));
}

#[test]
fn an_operator_closes_a_topic_for_a_group_and_opens_it() {
    let folder = Folder::new();
    std::fs::write(folder.path(), r#"{"forbiddenTable":{"g":{"U":2,"V":4}}}"#).unwrap();
    let groups = folder.open();
    let forbid = |readable| {
        let mut found = true;
        let served = settled(&groups, 9, || {
            found = forbid(&groups, &ForbidTopic { group: "g", topic: "T", readable })?;
            Ok(Answer::success())
        });
        served.map(|_| found)
    };
    assert_eq!(refusal(forbid(None)).0, response::SUBSCRIPTION_GROUP_NOT_EXIST);
    groups.make("g", 1).unwrap();
    assert!(forbid(None).unwrap());
    assert!(!forbid(Some(false)).unwrap() && !forbid(None).unwrap());
    let again = folder.open();
    assert!(again.is_read_forbidden("g", "T") && again.is_read_forbidden("g", "V"), "it is on disk");
    assert!(forbid(Some(true)).unwrap());
    let again = folder.open();
    assert!(!again.is_read_forbidden("g", "T") && again.is_read_forbidden("g", "V"), "others stay");
}

#[test]
fn attributes_of_a_newer_broker_stay_when_the_group_is_changed() {
    let folder = Folder::new();
    let table = r#"{"subscriptionGroupTable":{"g":{"groupName":"g","attributes":{"newer":"1"}}}}"#;
    std::fs::write(folder.path(), table).unwrap();
    let groups = folder.open();
    put(&groups, r#"{"groupName":"g","retryMaxTimes":3,"attributes":{"newer":"1","+priority.factor":"5"}}"#)
        .unwrap();
    let found = groups.find("g").unwrap();
    assert_eq!((found.retry_max_times, found.attributes.len()), (3, 2));
    assert_eq!(found.attributes["newer"], "1");
}
