//! `vostok lab failover` against a cluster of its own, with real processes that are killed, and real links that are cut.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::server::ON_ANY_DISK;

/// Runs one round and gives back what its report says about it.
fn round(out: &Path, flags: &[&str]) -> serde_json::Value {
    let fixed =
        ["lab", "failover", "--rounds", "1", "--rate", "400", "--down", "6", "--out", out.to_str().unwrap()];
    let times = ["--warmup", "1", "--duration", "2", "--no-selftest", "--free-min", "0"];
    let conf = out.with_extension("conf");
    std::fs::write(&conf, ON_ANY_DISK.join("\n")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_vostok"))
        .args(fixed)
        .args(times)
        .arg("--local-config")
        .arg(&conf)
        .args(flags)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}\n{errors}");
    assert!(told.contains("Failover: "), "no verdict: {told}");
    let text = std::fs::read(out.join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&text).unwrap();
    report["cells"][0]["failover"]["rounds"][0].clone()
}

/// What `ip` prints; `None` when it fails or is not there.
fn ip(words: &str) -> Option<String> {
    let output = Command::new("ip").args(words.split_whitespace()).output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

/// Whether this machine makes network namespaces; says so when it does not.
fn has_namespaces() -> bool {
    let name = format!("vostok-it-{}", std::process::id());
    let has = ip(&format!("netns add {name}")).and_then(|_| ip(&format!("netns del {name}"))).is_some();
    if !has {
        eprintln!(
            "SKIPPED: this machine makes no network namespaces; this test needs root and the program ip"
        );
    }
    has
}

/// Nobody listens any more at the name server's port of a cluster of the lab's own.
fn is_stopped(out: &Path) -> bool {
    let ports = std::fs::read_to_string(out.join("cluster/ports")).unwrap();
    let port: u16 = ports.split_whitespace().next().unwrap().parse().unwrap();
    std::net::TcpListener::bind(("127.0.0.1", port)).is_ok()
}

#[test]
fn a_killed_master_costs_a_gap_and_no_message() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("run");
    let found = round(&out, &["--fault", "leader-kill", "--local", "1m2s"]);
    assert_eq!(found["lost"], 0, "{found}");
    assert_eq!(
        (&found["doubled"], &found["out_of_order"], &found["changed"]),
        (&0.into(), &0.into(), &0.into())
    );
    // How long it takes is no matter here, but it is not nothing, and it ends.
    assert!(found["service_gap_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{found}");
    assert!(found["longest_gap_ms"].as_f64() >= found["service_gap_ms"].as_f64(), "{found}");
    assert_eq!(found["client_gaps_ms"].as_array().map(Vec::len), Some(8), "{found}");
    assert_eq!(found["whole"], true, "{found}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("<section id=\"failover\">"));
    let rounds = std::fs::read_to_string(out.join("rounds.csv")).unwrap();
    assert_eq!(rounds.lines().count(), 2, "{rounds}");
    assert!(is_stopped(&out), "the cluster is gone");
}

#[test]
fn a_master_that_is_cut_off_costs_a_gap_and_no_message() {
    if !has_namespaces() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("run");
    let found = round(&out, &["--fault", "partition", "--local", "1m2s"]);
    assert_eq!(found["lost"], 0, "{found}");
    assert_eq!(
        (&found["doubled"], &found["out_of_order"], &found["changed"]),
        (&0.into(), &0.into(), &0.into())
    );
    // Clients hear nothing at all until another broker is master, and the one that was cut off follows it in the end.
    assert!(found["service_gap_ms"].as_f64().is_some_and(|ms| ms > 1_000.0), "{found}");
    assert!(found["unanswered"].as_u64().is_some_and(|count| count > 0), "{found}");
    assert_eq!((&found["moved"], &found["whole"]), (&true.into(), &true.into()), "{found}");
    // Nothing is left of its links.
    let network = std::fs::read_to_string(out.join("cluster/network")).unwrap();
    let routes = ip("-4 route show table all").unwrap();
    let prefix = network.trim().strip_suffix('0').unwrap();
    assert!(!routes.contains(prefix), "{prefix}: {routes}");
}

#[test]
fn a_partition_is_refused_before_anything_starts_where_it_cannot_be_made() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("run");
    let output = Command::new(env!("CARGO_BIN_EXE_vostok"))
        .args(["lab", "failover", "--local", "1m2s", "--fault", "partition", "--out"])
        .arg(&out)
        // Without the program ip.
        .env("PATH", place.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{errors}");
    for part in ["--fault", "the program ip cannot be started", "as root", "--inject and --heal"] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    assert!(!out.exists(), "nothing was started");
}
