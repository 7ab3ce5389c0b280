//! Every page of `docs/` is listed in `docs/README.md`, and every link of a page goes somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The Markdown files of a directory and of those below it.
fn pages(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let pages = entries.flat_map(|path| match path.is_dir() {
        true => pages(path.to_str().expect("a name in UTF-8")),
        false => vec![path],
    });
    pages.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// A path without `..` and `.`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
        plain
    })
}

/// The files of the project to which a page links; neither its code nor the web counts.
fn links(page: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(page).expect("a page");
    let mut is_code = false;
    let prose = text.lines().filter(|line| {
        is_code ^= line.starts_with("```");
        !is_code
    });
    let prose: String = prose.flat_map(|line| line.split('`').step_by(2).chain(["\n"])).collect();
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next());
    let targets = targets.filter(|target| !target.is_empty() && !target.contains(':'));
    targets.map(|target| plain(&page.parent().expect("a file").join(target))).collect()
}

#[test]
fn every_page_is_listed() {
    let listed: BTreeSet<PathBuf> = links(Path::new("docs/README.md")).into_iter().collect();
    let is_listed = |page: &PathBuf| page.ancestors().any(|path| listed.contains(path));
    let missing: Vec<_> = pages("docs")
        .into_iter()
        .filter(|page| page != Path::new("docs/README.md") && !is_listed(page))
        .collect();
    assert!(missing.is_empty(), "docs/README.md does not list {missing:?}");
}

#[test]
fn every_link_goes_somewhere() {
    let mut all = pages("docs");
    all.extend(pages("crates").into_iter().filter(|page| page.ends_with("ARCHITECTURE.md")));
    all.extend(
        ["README.md", "README.zh-CN.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"]
            .map(PathBuf::from),
    );
    let (mut count, mut broken) = (0, Vec::new());
    for page in &all {
        for target in links(page) {
            count += 1;
            if !target.exists() {
                broken.push(format!("{} -> {}", page.display(), target.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(count > 150, "only {count} links were found");
}
