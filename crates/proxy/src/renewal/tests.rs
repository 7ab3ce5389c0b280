use broker::api::{Caller, Subject};

use super::*;
use crate::failure::Failure;
use crate::registry::Registry;

struct Fixture {
    renewals: Renewals,
    registry: Arc<Registry>,
    client: Arc<Client>,
}

/// A handle of a message popped at `pop_ms`.
fn handle(pop_ms: i64, invisible_ms: i64) -> String {
    format!("0 {pop_ms} {invisible_ms} 0 0 b 0 7 100")
}

fn fixture() -> Fixture {
    let registry = Registry::new(10, 5);
    let remote = "127.0.0.1:5".parse().unwrap();
    let client = registry.enter("c", &Caller { remote, version: 0, user: Subject::Off }).unwrap();
    Fixture { renewals: Renewals::new(&Config::default()), registry, client }
}

impl Fixture {
    fn renew(&self, handle: &str) {
        self.renewals.renew(&self.client, received(handle));
    }

    /// The only change that is due.
    fn due(&self, now_ms: i64) -> Change {
        let changes = self.renewals.due(now_ms);
        let [change] = &*changes else { panic!("{changes:?}") };
        change.clone()
    }

    fn take(&self, handle: &str) -> Option<String> {
        match self.renewals.take(&self.client, handle)? {
            NewestHandle::Now(handle) => Some(handle),
            NewestHandle::Later(mut handle) => handle.try_recv().ok(),
        }
    }
}

fn received(handle: &str) -> Received {
    let [topic, group, handle] = ["T", "g", handle].map(str::to_owned);
    Received { topic, group, handle, lite_topic: String::new(), reconsume_times: 2 }
}

fn failure(code: Code) -> Result<String, Failure> {
    Err(Failure::new(code, ""))
}

#[test]
fn each_renewal_lasts_longer_than_the_one_before() {
    let fixture = fixture();
    fixture.renew(&handle(0, 60_000));
    assert!(fixture.renewals.due(49_999).is_empty());
    let mut now_ms = 50_000;
    for minutes in [1, 3, 5, 10, 30, 60, 60] {
        let change = fixture.due(now_ms);
        assert_eq!(change.invisible, Invisible::Renewed(minutes * 60_000));
        // One change at a time.
        assert!(fixture.renewals.due(now_ms).is_empty());
        let renewed = handle(now_ms, minutes * 60_000);
        fixture.renewals.done(&change, Ok(renewed), now_ms);
        now_ms += minutes * 60_000 - 10_000;
    }
    assert_eq!(fixture.take(&handle(0, 60_000)), Some(handle(now_ms - 3_590_000, 3_600_000)));
    assert_eq!((fixture.renewals.len(), fixture.take(&handle(0, 60_000))), (0, None));
}

#[test]
fn an_acknowledgement_waits_for_the_change_under_way() {
    let fixture = fixture();
    fixture.renew(&handle(0, 60_000));
    let change = fixture.due(50_000);
    let Some(NewestHandle::Later(mut newest)) = fixture.renewals.take(&fixture.client, &handle(0, 60_000))
    else {
        panic!()
    };
    assert!(newest.try_recv().is_err());
    fixture.renewals.done(&change, Ok(handle(50_000, 60_000)), 50_001);
    assert_eq!((newest.try_recv().unwrap(), fixture.renewals.len()), (handle(50_000, 60_000), 0));
}

#[test]
fn a_message_is_renewed_until_it_failed_three_times_in_a_row() {
    let fixture = fixture();
    fixture.renew(&handle(0, 60_000));
    for code in [Code::TooManyRequests, Code::InternalServerError] {
        fixture.renewals.done(&fixture.due(50_000), failure(code), 50_000);
    }
    fixture.renewals.done(&fixture.due(50_000), Ok(handle(50_000, 11_000)), 50_000);
    for left in [1, 1, 0] {
        fixture.renewals.done(&fixture.due(60_000), failure(Code::InternalServerError), 60_000);
        assert_eq!(fixture.renewals.len(), left);
    }
}

#[test]
fn a_handle_that_is_not_good_any_more_is_forgotten_at_once() {
    let fixture = fixture();
    fixture.renew(&handle(0, 60_000));
    fixture.renewals.done(&fixture.due(50_000), failure(Code::InvalidReceiptHandle), 50_000);
    assert_eq!(fixture.renewals.len(), 0);
}

#[test]
fn a_client_that_leaves_gives_everything_back_and_failures_are_tried_again() {
    let fixture = fixture();
    fixture.renew(&handle(0, 60_000));
    fixture.registry.remove(&fixture.client);
    for _ in 0..5 {
        let change = fixture.due(1000);
        assert_eq!(change.invisible, Invisible::Cleared(1000));
        fixture.renewals.done(&change, failure(Code::TooManyRequests), 1000);
    }
    // Visible without that.
    fixture.renewals.done(&fixture.due(60_000), failure(Code::TooManyRequests), 60_000);
    assert_eq!(fixture.renewals.len(), 0);
}

#[test]
fn a_message_that_is_renewed_while_its_client_leaves_is_given_back_next() {
    let fixture = fixture();
    fixture.renew(&handle(0, 60_000));
    let change = fixture.due(50_000);
    fixture.registry.remove(&fixture.client);
    fixture.renewals.done(&change, Ok(handle(50_000, 60_000)), 50_000);
    let change = fixture.due(50_000);
    assert_eq!((change.invisible, &*change.handle), (Invisible::Cleared(1000), &*handle(50_000, 60_000)));
    fixture.renewals.done(&change, Ok(handle(50_001, 1000)), 50_001);
    assert_eq!(fixture.renewals.len(), 0);
}

#[test]
fn at_the_end_what_was_renewed_is_given_back() {
    let fixture = fixture();
    fixture.renew(&handle(0, 60_000));
    fixture.renew(&handle(1, 600_000));
    fixture.renewals.done(&fixture.due(50_000), Ok(handle(50_000, 600_000)), 50_000);
    assert!(fixture.renewals.due(50_001).is_empty());
    fixture.renewals.end();
    let change = fixture.due(50_001);
    assert_eq!((change.invisible, &*change.handle), (Invisible::Cleared(1000), &*handle(50_000, 600_000)));
    fixture.renewals.done(&change, Ok(handle(50_001, 1000)), 50_001);
    assert!(fixture.renewals.due(600_000).is_empty(), "what was not renewed stays its client's");
}

#[test]
fn after_three_hours_the_retry_policy_says_when_a_message_comes_again() {
    let fixture = fixture();
    fixture.renew(&handle(0, 10_800_000));
    let change = fixture.due(10_800_000);
    assert_eq!(change.invisible, Invisible::Retry(2));
    fixture.renewals.done(&change, Ok(handle(10_800_000, 60_000)), 10_800_000);
    assert_eq!(fixture.renewals.len(), 0);
}

#[test]
fn a_message_that_was_not_delivered_is_given_back() {
    let fixture = fixture();
    fixture.renewals.give_back(received(&handle(0, 60_000)));
    let change = fixture.due(0);
    assert_eq!(change.invisible, Invisible::Cleared(1000));
    fixture.renewals.done(&change, Ok(handle(0, 1000)), 0);
    assert_eq!(fixture.renewals.len(), 0);
}
