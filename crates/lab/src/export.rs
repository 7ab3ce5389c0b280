//! `vostok lab report RUN`: reads a run's directory and writes the four reports into it.

use crate::Error;
use crate::archive::{Record, run_directory, write_whole};
use crate::compare::{self, Comparison};
use crate::judge::conclusion::Conclusion;
use crate::judge::guards::{Limits, Slo};
use crate::judge::selftest::without_beaten;
use crate::judge::{Language, numbers};
use crate::output::say;
use crate::pages::html::{self, Additions};
use crate::pages::{json, markdown, table};
use crate::plan::{self, Plan};
use std::path::{Path, PathBuf};

/// Flags of `vostok lab report`.
#[derive(clap::Args, Debug, Clone)]
pub struct ReportFlags {
    /// Directory of a run, or a file in it such as run.json.
    #[arg(value_name = "RUN", value_parser = run_directory)]
    run: PathBuf,
    /// Language in which the page opens (it can be switched), and of the Markdown.
    #[arg(long, value_enum, default_value_t)]
    lang: Language,
    /// Limits that a safe rate must keep, e.g. `e2e.p99<50ms,errors=0` [default: those of the run].
    #[arg(long, value_name = "SLO")]
    slo: Option<Slo>,
    /// Write report.html; without any of the four, all are written.
    #[arg(long)]
    html: bool,
    /// Write report.md.
    #[arg(long)]
    md: bool,
    /// Write cells.csv.
    #[arg(long)]
    csv: bool,
    /// Write report.json.
    #[arg(long)]
    json: bool,
}

impl ReportFlags {
    /// Flags for all four reports of a run, with the limits that the run was told to keep.
    #[must_use]
    pub fn of(run: &Path) -> Self {
        let run = run.to_owned();
        Self { run, lang: Language::default(), slo: None, html: false, md: false, csv: false, json: false }
    }
}

/// Writes the reports and prints the verdict.
///
/// # Errors
/// [`Error::File`] when the run cannot be read or the reports cannot be written.
pub fn run(flags: &ReportFlags) -> Result<(), Error> {
    let record = without_beaten(Record::read(&flags.run)?);
    let kept = Limits::of(&record.file);
    let limits = Limits { slo: flags.slo.clone().unwrap_or_else(|| kept.slo.clone()), ..kept };
    let conclusion = Conclusion::new(&record, &limits);
    let all = !(flags.html || flags.md || flags.csv || flags.json);
    let write = |name: &str, text: String| {
        let path = flags.run.join(name);
        write_whole(&path, &text)?;
        say!("{} ({})", path.display(), numbers::bytes(text.len() as f64));
        Ok::<_, Error>(())
    };
    if all || flags.html {
        write("report.html", html::report(&conclusion, additions(&flags.run), flags.lang))?;
    }
    if all || flags.md {
        write("report.md", markdown::markdown(&conclusion, flags.lang))?;
    }
    if all || flags.csv {
        write("cells.csv", table::csv(&conclusion))?;
    }
    if all || flags.json {
        let text =
            serde_json::to_string_pretty(&json::json(&conclusion)).expect("texts and numbers become JSON");
        write("report.json", text)?;
    }
    for (name, text) in crate::pages::verdict::lines(&conclusion) {
        say!("{}: {}", name.get(flags.lang), text.get(flags.lang));
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
