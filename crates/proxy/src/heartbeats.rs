//! The task of cluster mode that makes producers known to the brokers and forgets clients that are silent.

use std::sync::Arc;
use std::time::Duration;

use crate::calls::Proxy;
use crate::cluster::Cluster;

/// A client that was silent for so long is forgotten (`channelExpiredTimeout`).
const SILENCE_MAX_MS: i64 = 120_000;

/// Runs until the proxy stops.
pub async fn run(proxy: Arc<Proxy>, cluster: Arc<Cluster>) {
    cluster.relay_requests(&proxy.registry);
    let period = Duration::from_secs(u64::try_from(proxy.config.producers_told_s).unwrap_or(0).max(1));
    loop {
        tokio::select! {
            () = tokio::time::sleep(period) => {}
            () = cluster.producers_changed.notified() => {}
            () = proxy.stopping() => return,
        }
        let before_ms = client::now_ms() - SILENCE_MAX_MS;
        if proxy.registry.forget_silent(before_ms) {
            proxy.renewals.given_back.notify_one();
        }
        cluster.forget_silent_consumers(before_ms);
        cluster.heartbeat(&proxy.registry).await;
    }
}
