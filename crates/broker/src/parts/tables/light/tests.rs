//! Light queues at the broker.

use wire::codes::request;

use crate::testing::Fixture;

use super::*;
use crate::state::WAITED_MAX;

fn fixture(quota: Option<usize>) -> Fixture {
    Fixture::with(|config| {
        config.store.multi_dispatch = true;
        config.light.quota = quota.is_some();
        config.light.queues_max = quota.unwrap_or(0);
    })
}

const TO_ONE: &[u8] = b"INNER_MULTI_DISPATCH\x01%LMQ%one\x02";

#[test]
fn a_light_queue_is_read_like_any_other_and_stands_in_no_table() {
    let fixture = fixture(None);
    fixture.put("T", 1, b"a", TO_ONE);
    fixture.put("T", 2, b"b", b"");
    fixture.put("T", 0, b"c", TO_ONE);
    let bodies: Vec<_> = fixture.messages("%LMQ%one", 0).into_iter().map(|(body, ..)| body).collect();
    assert_eq!(bodies, [b"a", b"c"]);
    assert!(fixture.broker.tables.topics.find("%LMQ%one").is_none());
    assert!(fixture.broker.tables.topic("%LMQ%nothing").is_some(), "somebody may wait at it");
    assert!(fixture.broker.tables.topic("%LMQ%one").unwrap().queue(&fixture.broker.store, 1).is_none());
    assert_eq!(
        fixture
            .broker
            .tables
            .group(&fixture.broker.runtime.config, "%LMQ%g")
            .unwrap()
            .unwrap()
            .retry_max_times,
        16
    );
    assert_eq!(fixture.broker.tables.groups.version().counter, 0, "no table was written");
}

#[test]
fn who_waits_at_a_light_queue_is_found_after_an_append() {
    let fixture = fixture(None);
    let waited = fixture.broker.tables.log_queue("%LMQ%one", 0).unwrap();
    let queue = fixture.queue("T", 0);
    let mut batch = fixture.broker.store.batch();
    batch.push(&queue.index, &crate::testing::message(b"x", TO_ONE)).unwrap();
    batch
        .push(&queue.index, &crate::testing::message(b"y", b"INNER_MULTI_DISPATCH\x01%LMQ%two\x02"))
        .unwrap();
    fixture.broker.store.append(&mut batch, 1).unwrap();
    let found = fixture.broker.tables.further_queues(&batch);
    assert_eq!(found.len(), 1, "nobody ever asked for the other one");
    assert!(Arc::ptr_eq(&found[0], &waited));
}

#[test]
fn light_queues_that_nobody_waits_at_make_room_for_others() {
    let fixture = fixture(None);
    let waited = fixture.broker.tables.topic("%LMQ%waited").unwrap();
    // A suspended pull holds only its queue.
    let pulled = fixture.broker.tables.log_queue("%LMQ%pulled", 0).unwrap();
    for number in 2..WAITED_MAX {
        fixture.broker.tables.topic(&format!("%LMQ%{number}")).unwrap();
    }
    assert!(fixture.broker.tables.topic("%LMQ%one-more").is_some());
    let again = fixture.broker.tables.topic("%LMQ%waited").unwrap();
    assert!(Arc::ptr_eq(&waited, &again), "who waits there is still found");
    assert!(Arc::ptr_eq(&pulled, &fixture.broker.tables.log_queue("%LMQ%pulled", 0).unwrap()));
    assert_eq!(fixture.broker.tables.light.len(), 3);
}

#[test]
fn more_light_queues_than_allowed_are_refused_with_2017() {
    let fixture = fixture(Some(2));
    let admit = |names: &str| {
        fixture.broker.tables.admit_light(
            &fixture.broker.runtime.config,
            format!("INNER_MULTI_DISPATCH\u{1}{names}\u{2}").as_bytes(),
        )
    };
    admit("%LMQ%a,Other,%LMQ%b").unwrap();
    admit("%LMQ%b,%LMQ%a").unwrap();
    let refusal = admit("%LMQ%c").unwrap_err();
    assert_eq!(refusal.code, 2017);
    assert_eq!(refusal.remark, "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]lmq consume queue num exceeded.");
    admit("Other").unwrap();
}

#[test]
fn light_queues_have_a_bound_with_and_without_a_quota() {
    let mut config = Fixture::new().broker.runtime.config.clone();
    for (quota, setting, bound) in [
        (false, 20_000, 1_000_000),
        (false, 2_000_000, 2_000_000),
        (true, 5, 5),
        (true, 2_000_000, 2_000_000),
    ] {
        (config.light.quota, config.light.queues_max) = (quota, setting);
        assert_eq!(queues_max(&config), bound, "{quota} {setting}");
    }
}

#[test]
fn a_refused_light_queue_does_not_count() {
    let fixture = fixture(Some(5));
    let admit = |number: usize| {
        let text = format!("INNER_MULTI_DISPATCH\u{1}%LMQ%{number}\u{2}");
        fixture.broker.tables.admit_light(&fixture.broker.runtime.config, text.as_bytes())
    };
    (0..5).for_each(|number| admit(number).unwrap());
    assert_eq!(admit(5).unwrap_err().code, 2017);
    admit(0).unwrap();
    assert_eq!(fixture.broker.tables.light.count(), 5);
}

#[test]
fn positions_of_light_groups_are_kept_where_java_keeps_them() {
    let fixture = fixture(None);
    fixture.broker.tables.offsets.commit("%LMQ%g", "%LMQ%one", 0, 5);
    fixture.broker.tables.offsets.commit("g", "T", 3, 7);
    crate::save::save(&fixture.broker.delivery, &fixture.broker.runtime, &fixture.broker.pops);
    let file = std::fs::read(fixture.config_path("lmqConsumerOffset.json")).unwrap();
    let file: serde_json::Value = serde_json::from_slice(&file).unwrap();
    assert_eq!(file["lmqOffsetTable"], serde_json::json!({"%LMQ%one@%LMQ%g": 5}));
    assert_eq!(file["offsetTable"]["T@g"], serde_json::json!({"3": 7}));
    assert!(file["offsetTable"].get("%LMQ%one@%LMQ%g").is_none());
    let again =
        crate::offsets::Offsets::load_light(&fixture.broker.tables.files, fixture.broker.store.clone())
            .unwrap();
    assert_eq!((again.committed("%LMQ%g", "%LMQ%one", 0), again.committed("g", "T", 3)), (Some(5), Some(7)));
}

#[test]
fn deleting_a_light_queue_forgets_what_groups_did_there() {
    let fixture = Fixture::with(|config| config.store.multi_dispatch = true);
    fixture.queue("T", 0);
    fixture.put("T", 0, b"x", TO_ONE);
    fixture.broker.tables.offsets.commit("g", "%LMQ%one", 0, 1);
    assert_eq!(fixture.ask(request::DELETE_TOPIC_IN_BROKER, &[("topic", "%LMQ%one")], b"").0, 0);
    assert_eq!(fixture.broker.tables.offsets.committed("g", "%LMQ%one", 0), None);
    fixture.put("T", 0, b"y", TO_ONE);
    assert_eq!(fixture.messages("%LMQ%one", 0).len(), 2, "its messages are in other queues too");
}

/// Hundreds of thousands of lite topics have an offset and a subscription each.
#[test]
fn offsets_of_light_queues_share_the_name_of_the_queue() {
    let fixture = fixture(None);
    fixture.put("T", 1, b"a", TO_ONE);
    let name = fixture.broker.store.find_queue("%LMQ%one", 0).unwrap().shared_topic();
    let before = Arc::strong_count(&name);
    fixture.broker.tables.offsets.commit("g", "%LMQ%one", 0, 1);
    assert_eq!(Arc::strong_count(&name), before + 1);
}
