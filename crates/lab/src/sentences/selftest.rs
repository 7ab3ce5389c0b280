//! Self-tests that their own run disproved.

use crate::archive::{Beaten, HostFile, Limit, RunFile};
use crate::judge::{Text, both};

/// The sentences about the self-tests that were left out.
pub fn self_tests_left_out(file: &RunFile) -> Vec<Text> {
    let sentences =
        |host: &HostFile| host.beaten.iter().map(|found| says(&host.name, found)).collect::<Vec<_>>();
    file.hosts.iter().flat_map(sentences).collect()
}

fn says(node: &str, Beaten { limit, tested, reached }: &Beaten) -> Text {
    match limit {
        Limit::DiskWrite => both!("selftest.disk-write", node, tested, reached),
        Limit::DiskRead => both!("selftest.disk-read", node, tested, reached),
        Limit::Loopback => both!("selftest.loopback", node, tested, reached),
    }
}
