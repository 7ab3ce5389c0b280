use std::path::Path;

use super::*;

fn config(root: &Path) -> Config {
    let (mut config, _) = Config::from_properties(b"").unwrap();
    config.set_store_root(root);
    config.store.segment_bytes = 1 << 20;
    config.listen_port = 0;
    config
}

/// A RocketMQ broker, and ours as well, would look for what a crash left.
#[test]
fn a_start_that_fails_leaves_no_crash_mark() {
    let unreadable = [
        "config/subscriptionGroup.json",
        "config/consumerOffset.json",
        "config/delayOffset.json",
        "config/messageRequestMode.json",
        "timerwheel",
    ];
    for name in unreadable {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        Store::open(config(root).store, Arc::new(RealDisk)).unwrap().close().unwrap();
        std::fs::create_dir_all(root.join("config")).unwrap();
        for file in [root.join(name), root.join(format!("{name}.bak"))] {
            std::fs::write(file, b"{what is this").unwrap();
        }
        let workers = Workers::start("test", 1, net::Limits::default()).unwrap();
        assert!(RunningBroker::start(config(root), workers.clone()).is_err(), "{name}");
        workers.shutdown();
        assert!(!root.join("abort").exists(), "{name}");
    }
}
