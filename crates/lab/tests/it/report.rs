//! Reports of a run that was really measured: `golden/matrix`, two cells of a broker and a lab on one small machine.

use lab::archive::Record;
use lab::command::Lab;
use lab::judge::bottleneck::Resource;
use lab::judge::conclusion::Conclusion;
use lab::judge::guards::{Limits, Watch};
use std::path::{Path, PathBuf};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/matrix")
}

/// Runs a tool of the lab.
fn run(arguments: &[&str]) {
    lab::run(Lab::new(arguments.iter().map(|word| (*word).to_owned()))).unwrap();
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

#[test]
fn a_recorded_run_is_judged() {
    let record = Record::read(&golden()).unwrap();
    let found = Conclusion::new(&record, &Limits::default());
    assert_eq!((found.cells.len(), found.valid()), (2, 2));
    // Ten requests in flight filled the two cores: that is the limit, and no rate to be called safe.
    let limit = found.bottleneck.as_ref().unwrap();
    assert_eq!(limit.resource, Resource::Cpu, "{:?}", limit.evidence);
    let broken: Vec<Watch> =
        found.cells[1].guards.iter().filter(|guard| guard.is_broken()).map(|guard| guard.watch).collect();
    assert_eq!(broken, [Watch::CpuBusy, Watch::Load, Watch::Drift]);
    // Both directions of loopback: bodies sent and consumed, within the overhead of a message.
    assert!(
        found.cells.iter().all(|case| case.balance.iter().all(|term| !term.off)),
        "{:?}",
        found.cells[1].balance
    );
}

#[test]
fn a_report_is_written_beside_the_data() {
    let directory = tempfile::tempdir().unwrap();
    copy(&golden(), directory.path());
    let place = directory.path().to_str().unwrap();
    run(&["report", place, "--lang", "zh"]);
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    let page = read("report.html");
    for chapter in ["verdict", "cases", "matrix", "factors", "trends", "cells", "environment", "origin"] {
        assert!(page.contains(&format!("<section id=\"{chapter}\">")), "chapter {chapter}");
    }
    assert!(page.contains("</pre><button type=\"button\" onclick=\"getSelection()"), "a command to copy");
    for word in ["src=", "@import", "url(", "<link rel=\"stylesheet\""] {
        assert!(!page.contains(word), "{word}");
    }
    // Every data file the page names is there.
    let links = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let files: Vec<&str> = links.filter(|link| link.starts_with("cells/")).collect();
    assert!(files.len() > 10);
    for file in files {
        assert!(directory.path().join(file).exists(), "{file}");
    }
    assert!(read("report.md").contains("最高安全 TPS"));
    assert_eq!(read("cells.csv").lines().count(), 3);
    let json: serde_json::Value = serde_json::from_str(&read("report.json")).unwrap();
    assert_eq!(json["bottleneck"]["resource"], "cpu");
}

#[test]
fn a_comparison_and_a_plan_become_chapters() {
    let directory = tempfile::tempdir().unwrap();
    copy(&golden(), directory.path());
    let place = directory.path().to_str().unwrap();
    run(&["compare", place, place, "--cost", "A=6900cny/mo"]);
    run(&[
        "plan",
        "--peak",
        "50k/s",
        "--size",
        "500",
        "--groups",
        "3",
        "--safe-tps",
        "70k",
        "--out",
        &format!("{place}/plan"),
    ]);
    run(&["report", place, "--html"]);
    let page = std::fs::read_to_string(directory.path().join("report.html")).unwrap();
    assert!(page.contains("0 better, 2 equal, 0 worse"), "a run is equal to itself");
    assert!(page.contains("by rate: ⌈50,000"));
    assert!(directory.path().join("plan/broker-a-0.conf").exists());
}
