//! Says which commit and which build `vostok --version` speaks of.

use std::env::var;
use std::process::Command;

fn main() {
    // A commit or a checkout changes these; the sources themselves are cargo's to watch.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    let commit = git(&["log", "-1", "--format=commit %h of %cs"]);
    // A source archive has no repository.
    let commit = commit.unwrap_or_else(|| "commit unknown".to_owned());
    let of_build = |name| var(name).expect("cargo sets it for build scripts");
    println!(
        "cargo::rustc-env=VOSTOK_VERSION={} ({commit}, {} build, {})",
        of_build("CARGO_PKG_VERSION"),
        of_build("PROFILE"),
        of_build("TARGET"),
    );
}

/// The first line that git prints, if this is a repository and git is installed.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(str::to_owned)
}
