use std::path::Path;

use super::*;

fn config(root: &Path) -> Config {
    let (mut config, _) = Config::from_properties(b"").unwrap();
    config.set_store_root(root);
    config.store.segment_bytes = 1 << 20;
    config.listen_port = 0;
    config
}

/// A crash mark would make the next start, of Vostok or of RocketMQ, recover the store as after a crash.
#[test]
fn a_start_that_fails_leaves_no_crash_mark() {
    let unreadable = [
        "config/subscriptionGroup.json",
        "config/consumerOffset.json",
        "config/delayOffset.json",
        "config/messageRequestMode.json",
        "timerlog/what",
    ];
    for name in unreadable {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        Store::open(config(root).store, Arc::new(RealDisk)).unwrap().close().unwrap();
        std::fs::create_dir_all(root.join("config")).unwrap();
        std::fs::create_dir_all(root.join("timerlog")).unwrap();
        for file in [root.join(name), root.join(format!("{name}.bak"))] {
            std::fs::write(file, b"{what is this").unwrap();
        }
        let workers = Workers::start("test", 1, net::Limits::default()).unwrap();
        assert!(RunningBroker::start(config(root), workers.clone()).is_err(), "{name}");
        workers.shutdown();
        assert!(!root.join("abort").exists(), "{name}");
    }
}

/// RocketMQ refuses a store whose file sizes differ from its settings.
#[test]
fn the_files_of_a_store_keep_their_size() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    std::fs::create_dir(root.join("timerlog")).unwrap();
    std::fs::write(root.join("timerlog/00000000000000000000"), vec![0; 520_000]).unwrap();
    let run = |change: fn(&mut Config)| {
        let mut config = config(root);
        change(&mut config);
        let workers = Workers::start("test", 1, net::Limits::default()).unwrap();
        let running = RunningBroker::start(config, workers).unwrap();
        let (config, store) = (&running.broker.runtime.config, &running.broker.store);
        let sizes = (config.store.segment_bytes, config.store.queue_file_bytes, config.timers.log_file_bytes);
        let mut batch = store.batch();
        batch.push(&store.queue("T", 0).unwrap(), &crate::testing::message(b"body", b"")).unwrap();
        store.append(&mut batch, 0).unwrap();
        running.stop().unwrap();
        sizes
    };
    let first = run(|config| config.store.queue_file_bytes = 2000);
    let again = run(|config| config.store.segment_bytes = 1 << 21);
    assert_eq!((first, again), ((1 << 20, 2000, 520_000), first));
}

#[test]
fn a_master_whose_slaves_nobody_can_show_as_masters_serves_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config(directory.path());
    config.replication.acting.is_enabled = true;
    let workers = Workers::start("test", 1, net::Limits::default()).unwrap();
    let running = RunningBroker::start(config, workers).unwrap();
    let broker = running.broker.clone();
    crate::testing::until("it is the master", || !broker.replication.role.is_slave());
    assert_eq!(broker.runtime.supervisor.names(), Vec::<String>::new());
    running.stop().unwrap();
}

#[test]
fn the_parts_of_a_stopped_broker_are_freed() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config(directory.path());
    config.store.multi_dispatch = true;
    let workers = Workers::start("test", 1, net::Limits::default()).unwrap();
    let running = RunningBroker::start(config, workers).unwrap();
    let broker = &running.broker;
    broker.delivery.put("T", 0, &crate::testing::message(b"body", b"")).unwrap();
    let (pulls, pops) = (Arc::downgrade(&broker.pulls), Arc::downgrade(&broker.pops));
    let (engines, sends) = (Arc::downgrade(&broker.engines), Arc::downgrade(&broker.sends));
    let (delivery, store) = (Arc::downgrade(&broker.delivery), Arc::downgrade(&broker.store));
    running.stop().unwrap();
    crate::testing::until("the parts are freed and the files closed", || {
        let counts =
            [pulls.strong_count(), pops.strong_count(), engines.strong_count(), sends.strong_count()];
        counts == [0; 4] && delivery.strong_count() == 0 && store.strong_count() == 0
    });
}
