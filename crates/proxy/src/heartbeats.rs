//! The task that makes producers known to other brokers and forgets clients that are silent.

use std::sync::Arc;
use std::time::Duration;

use crate::calls::Proxy;

/// Time without activity after which a client is forgotten (`channelExpiredTimeout`).
const SILENCE_MAX_MS: i64 = 120_000;

/// Runs until the proxy stops.
pub async fn run(proxy: Arc<Proxy>) {
    let cluster = proxy.brokers.cluster();
    if let Some(cluster) = cluster {
        cluster.relay_requests(&proxy.registry);
    }
    let period = Duration::from_secs(u64::try_from(proxy.config.producers_told_s).unwrap_or(0).max(1));
    let producers_changed = async || match cluster {
        Some(cluster) => cluster.producers_changed.notified().await,
        None => std::future::pending().await,
    };
    loop {
        tokio::select! {
            () = tokio::time::sleep(period) => {}
            () = producers_changed() => {}
            () = proxy.stopping() => return,
        }
        let before_ms = proxy.brokers.now_ms() - SILENCE_MAX_MS;
        if proxy.registry.forget_silent(before_ms) {
            proxy.renewals.given_back.notify_one();
        }
        if let Some(cluster) = cluster {
            cluster.forget_silent_consumers(before_ms);
            cluster.heartbeat(&proxy.registry, proxy.brokers.own_master()).await;
        }
    }
}
