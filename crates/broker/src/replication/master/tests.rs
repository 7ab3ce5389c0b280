use std::time::Duration;

use wire::units::LogOffset;

use super::range;
use crate::testing::Fixture;

#[test]
fn slaves_of_an_elected_master_get_only_what_is_on_disk() {
    let fixture = Fixture::with(|config| config.store.flush_interval = Duration::from_secs(3_600));
    fixture.put("T", 0, b"not on disk yet", b"");
    let store = &fixture.broker.store;
    assert!(store.appended() > LogOffset::ZERO);
    assert_eq!(range(store, false).end, store.appended());
    assert_eq!(range(store, true).end, LogOffset::ZERO);
}
