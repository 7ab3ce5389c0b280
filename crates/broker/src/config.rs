//! PLACEHOLDER by the founder showing which names the other modules use; to be replaced as a whole by the table-driven one.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

/// Bounds of one pull.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// `maxTransferCountOnMessageInMemory`.
    pub count_max: i32,
    /// `maxTransferBytesOnMessageInMemory`.
    pub bytes_max: usize,
    /// `maxFilterMessageSize` / 20: index units looked at per pull.
    pub scan_units: i64,
}

/// Settings.
#[derive(Clone, Debug)]
#[expect(missing_docs)]
pub struct Config {
    pub broker_cluster_name: String,
    pub broker_name: String,
    pub broker_id: i64,
    pub broker_ip1: String,
    pub bind_address: IpAddr,
    pub listen_port: u16,
    pub namesrv_addr: Option<String>,
    pub auto_create_topic_enable: bool,
    pub auto_create_subscription_group: bool,
    pub default_topic_queue_nums: i32,
    pub broker_permission: i32,
    pub max_message_size: usize,
    pub region_id: String,
    pub trace_on: bool,
    pub long_polling_enable: bool,
    pub short_polling_time_ms: i64,
    pub lite_pull_message_enable: bool,
    pub notify_consumer_ids_changed_enable: bool,
    pub flush_consumer_offset_interval_ms: u64,
    pub register_name_server_period_ms: u64,
    pub transfer: Transfer,
    pub store: store::Config,
}

impl Config {
    /// Reads a properties text.
    pub fn from_properties(_text: &[u8]) -> Result<(Self, Vec<String>), String> {
        Ok((
            Self {
                broker_cluster_name: "DefaultCluster".into(),
                broker_name: "broker-a".into(),
                broker_id: 0,
                broker_ip1: crate::start::reachable_ip().to_string(),
                bind_address: Ipv4Addr::UNSPECIFIED.into(),
                listen_port: 10911,
                namesrv_addr: None,
                auto_create_topic_enable: true,
                auto_create_subscription_group: true,
                default_topic_queue_nums: 8,
                broker_permission: 6,
                max_message_size: 4 << 20,
                region_id: "DefaultRegion".into(),
                trace_on: true,
                long_polling_enable: true,
                short_polling_time_ms: 1000,
                lite_pull_message_enable: true,
                notify_consumer_ids_changed_enable: true,
                flush_consumer_offset_interval_ms: 5000,
                register_name_server_period_ms: 30_000,
                transfer: Transfer { count_max: 32, bytes_max: 262_144, scan_units: 800 },
                store: store::Config::new("./data"),
            },
            Vec::new(),
        ))
    }

    /// Did the file set storePathRootDir?
    pub fn has_store_path(&self) -> bool {
        false
    }

    /// Sets storePathRootDir (and storePathCommitLog when it was not set).
    pub fn set_store_root(&mut self, root: &Path) {
        self.store.root = root.to_owned();
        self.store.commit_log = root.join("commitlog");
    }

    /// Addresses of `namesrvAddr`.
    pub fn name_servers(&self) -> Vec<String> {
        self.namesrv_addr.iter().flat_map(|list| list.split(';')).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    /// All settings as a properties text.
    pub fn to_properties(&self) -> String {
        String::new()
    }
}
