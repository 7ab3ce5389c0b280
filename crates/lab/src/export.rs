//! `vostok lab report RUN`: reads a run's directory and writes the four reports into it.

use crate::Error;
use crate::archive::{Record, run_directory, write_whole};
use crate::compare::{self, Comparison};
use crate::judge::conclusion::Conclusion;
use crate::judge::guards::{Limits, Slo};
use crate::judge::selftest::without_beaten;
use crate::judge::{Language, numbers};
use crate::output::{self, say};
use crate::plan::{self, Plan};
use crate::report::html::{self, Additions};
use crate::report::{columns, failover, json, markdown};
use clap::Args;
use std::path::{Path, PathBuf};

/// The report to write.
#[derive(Args, Debug, Clone)]
pub struct ReportOptions {
    /// Directory of a run, or a file in it such as run.json.
    #[arg(value_name = "RUN", value_parser = run_directory)]
    pub run: PathBuf,
    /// Language in which the page opens (it can be switched), and of the Markdown.
    #[arg(skip)]
    pub lang: Language,
    /// Limits that a safe rate must keep, e.g. `e2e.p99<50ms,errors=0` [default: those of the run].
    #[arg(long, value_name = "SLO")]
    pub slo: Option<Slo>,
    /// The files to write; all of them if none is named.
    #[command(flatten)]
    pub files: Files,
}

/// Files of a report.
#[derive(Args, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files {
    /// Write report.html; without any of the four, all are written.
    #[arg(long)]
    pub html: bool,
    /// Write report.md.
    #[arg(long)]
    pub md: bool,
    /// Write cells.csv.
    #[arg(long)]
    pub csv: bool,
    /// Write report.json.
    #[arg(long)]
    pub json: bool,
}

impl Files {
    /// All files of a report.
    pub const ALL: Self = Self { html: true, md: true, csv: true, json: true };

    /// These files, or all if none is named.
    fn or_all(self) -> Self {
        if self == (Self { html: false, md: false, csv: false, json: false }) { Self::ALL } else { self }
    }
}

impl ReportOptions {
    /// The whole report of a run, with the limits that the run was told to keep.
    pub fn of(run: &Path) -> Self {
        Self { run: run.to_owned(), lang: output::language(), slo: None, files: Files::ALL }
    }
}

/// Writes the reports and prints the verdict.
///
/// # Errors
/// [`Error::File`] when the run cannot be read or the reports cannot be written.
pub fn run(options: &ReportOptions) -> Result<(), Error> {
    let files = options.files.or_all();
    let record = without_beaten(Record::read(&options.run)?);
    let kept = Limits::of(&record.file);
    let limits = Limits { slo: options.slo.clone().unwrap_or_else(|| kept.slo.clone()), ..kept };
    let conclusion = Conclusion::new(&record, &limits);
    let write = |name: &str, text: String| {
        let path = options.run.join(name);
        write_whole(&path, &text)?;
        say!("{} ({})", path.display(), numbers::bytes(text.len() as f64));
        Ok::<_, Error>(())
    };
    if files.html {
        write("report.html", html::report(&conclusion, additions(&options.run), options.lang))?;
    }
    if files.md {
        write("report.md", markdown::markdown(&conclusion, options.lang))?;
    }
    if files.csv {
        write("cells.csv", columns::csv(&conclusion))?;
        if let Some(rounds) = failover::csv(&conclusion) {
            write("rounds.csv", rounds)?;
        }
    }
    if files.json {
        let text =
            serde_json::to_string_pretty(&json::json(&conclusion)).expect("texts and numbers become JSON");
        write("report.json", text)?;
    }
    for (name, text) in crate::report::verdict::lines(&conclusion) {
        output::raw(&format!("{}: {}", name.get(options.lang), text.get(options.lang)));
    }
    Ok(())
}

/// Chapters 9 and 10, if a comparison or a plan was made from this run.
fn additions(run: &Path) -> Additions {
    let read = |name: &str| std::fs::read(run.join(name)).ok();
    let comparison = read("compare.json").and_then(|text| serde_json::from_slice::<Comparison>(&text).ok());
    let plan = read("plan/plan.json").and_then(|text| serde_json::from_slice::<Plan>(&text).ok());
    Additions {
        comparison: comparison.map(|comparison| compare::chapter(&comparison)),
        plan: plan.map(|plan| plan::chapter(&plan)),
    }
}
