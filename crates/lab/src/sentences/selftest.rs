//! Self-tests that their own run disproved.

use crate::archive::{Beaten, HostFile, Limit, RunFile};
use crate::judge::{Text, both, numbers};

/// The sentences about the self-tests that were left out.
pub fn self_tests_left_out(file: &RunFile) -> Vec<Text> {
    let sentences =
        |host: &HostFile| host.beaten.iter().map(|found| says(&host.name, found)).collect::<Vec<_>>();
    file.hosts.iter().flat_map(sentences).collect()
}

fn says(node: &str, found: &Beaten) -> Text {
    let [tested, reached] = [found.tested, found.reached].map(numbers::bytes);
    let (what, what_zh, did, did_zh) = match found.limit {
        Limit::DiskWrite => ("disk", "磁盘", "wrote", "写入"),
        Limit::DiskRead => ("disk", "磁盘", "read", "读取"),
        Limit::Loopback => ("loopback", "本机回环", "sent", "发送"),
    };
    both!("selftest.self-test-what-node", what, node, did, tested, reached, what_zh, did_zh)
}
