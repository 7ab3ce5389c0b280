//! Every page of `docs/` is listed in `docs/README.md`, every link of a page goes somewhere, and pages in both languages have
//! the same shape.

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

/// The files of the project to which a page links, each with the heading behind `#` or an empty text. Neither code nor the
/// web counts.
fn links_with_anchors(page: &Path) -> Vec<(PathBuf, String)> {
    let text = fs::read_to_string(page).expect("a page");
    let mut is_code = false;
    let prose = text.lines().filter(|line| {
        is_code ^= line.starts_with("```");
        !is_code
    });
    let prose: String = prose.flat_map(|line| line.split('`').step_by(2).chain(["\n"])).collect();
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let targets = targets.filter(|target| !target.is_empty() && !target.contains(':'));
    let split = targets.map(|target| target.split_once('#').unwrap_or((target, "")));
    let file = |path: &str| match path {
        "" => page.to_owned(),
        path => plain(&page.parent().expect("a file").join(path)),
    };
    split.map(|(path, anchor)| (file(path), anchor.to_owned())).collect()
}

/// The files of the project to which a page links.
fn links(page: &Path) -> Vec<PathBuf> {
    links_with_anchors(page).into_iter().map(|(path, _)| path).collect()
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(page).expect("a page");
    let mut is_code = false;
    let headings = text.lines().filter(|line| {
        is_code ^= line.starts_with("```");
        !is_code && line.starts_with('#')
    });
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let letters = words.chars().filter(|it| it.is_alphanumeric() || "-_ ".contains(*it));
        letters.map(|it| if it == ' ' { '-' } else { it }).collect()
    };
    headings.map(anchor).collect()
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
        for (target, anchor) in links_with_anchors(page) {
            count += 1;
            if !target.exists() || !(anchor.is_empty() || anchors(&target).contains(&anchor)) {
                broken.push(format!("{} -> {}#{anchor}", page.display(), target.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(count > 150, "only {count} links were found");
}

/// Headings, rows of tables, blocks of code, and items of lists of a page.
fn shape(page: &Path) -> [usize; 4] {
    let text = fs::read_to_string(page).expect("a page");
    let (mut is_code, mut shape) = (false, [0; 4]);
    for line in text.lines() {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        let is_item = || {
            line.split_once(' ').is_some_and(|(mark, _)| {
                mark == "-" || mark.strip_suffix('.').is_some_and(|number| number.parse::<u32>().is_ok())
            })
        };
        match line {
            _ if is_fence => shape[2] += 1,
            _ if is_code => {}
            _ if line.starts_with('#') => shape[0] += 1,
            _ if line.starts_with('|') => shape[1] += 1,
            _ if is_item() => shape[3] += 1,
            _ => {}
        }
    }
    shape
}

#[test]
fn both_languages_have_the_same_headings_rows_blocks_and_items() {
    let chinese = pages("docs").into_iter().chain([PathBuf::from("README.zh-CN.md")]);
    let chinese: Vec<_> =
        chinese.filter(|page| page.to_str().is_some_and(|name| name.ends_with(".zh-CN.md"))).collect();
    assert!(chinese.len() > 15, "{chinese:?}");
    for page in chinese {
        let english = page.to_str().expect("filtered").replace(".zh-CN", "");
        let shapes = [Path::new(&english), &page].map(shape);
        assert_eq!(shapes[0], shapes[1], "{english} and {}: headings, rows, blocks, items", page.display());
    }
}
