//! `vostok lab plan`: from a measured rate and a target to a topology, with the arithmetic shown (R13).
//!
//! [`arithmetic`] is the pure part; [`files`] writes the settings that follow from it.

mod arithmetic;
mod files;
mod page;
mod target;

pub use arithmetic::{Basis, Plan, plan};
pub use page::chapter;
pub use target::PlanOptions;

use crate::Error;
use crate::archive::{Record, write_whole};
use crate::judge::conclusion::Conclusion;
use crate::judge::guards::Limits;
use crate::judge::planned::Step;
use crate::judge::selftest::without_beaten;
use crate::judge::{RecordedVerdict, both};
use crate::output::raw;
use crate::sentences::Sentence;

/// Computes a plan, prints the arithmetic and writes the files where a directory is named for them.
///
/// # Errors
/// [`Error::File`] when the run cannot be read or the files cannot be written; an error as well when the run has no
/// safe rate.
pub fn run(options: &PlanOptions) -> Result<(), Error> {
    let basis = basis(options)?;
    let plan = plan(&options.target, &basis);
    for step in &plan.steps {
        raw(step.sentence().get(options.lang));
    }
    let Some(out) = &options.out else {
        let hint = both!("plan.no-files-written-out");
        raw(hint.get(options.lang));
        return Ok(());
    };
    std::fs::create_dir_all(out).map_err(|source| Error::File { path: out.clone(), source })?;
    for (name, text) in files::files(&options.target, &plan) {
        let path = out.join(name);
        write_whole(&path, &text)?;
        raw(&path.display().to_string());
    }
    let data = serde_json::to_string_pretty(&plan).expect("texts and numbers become JSON");
    write_whole(&out.join("plan.json"), &data)?;
    write_whole(&out.join("plan.html"), &page::page(&plan, options.lang))
}

/// The rate on which the plan is based: the safe rate of a run, or the rate that the user gives.
fn basis(options: &PlanOptions) -> Result<Basis, Error> {
    let refuse = |why: &str| Error::Flag { flag: "--run", why: why.to_owned() };
    if let Some(tps) = options.safe_tps {
        return Ok(Basis::named(tps.0, options.target.size.0));
    }
    let run = options
        .run
        .as_ref()
        .ok_or_else(|| refuse("a measured run is needed, or --safe-tps RATE of one master"))?;
    let record = without_beaten(Record::read(run)?);
    let conclusion = Conclusion::new(&record, &Limits::of(&record.file));
    Basis::measured(&conclusion, options.target.size.0).ok_or_else(|| {
        refuse("no valid cell of this run kept every guard, so there is no safe rate to plan with; see its report, or name one with --safe-tps")
    })
}

/// All steps of a plan in one text.
pub(crate) fn together(steps: &[RecordedVerdict<Step>]) -> String {
    steps.iter().map(Sentence::sentence).map(|step| format!("- {}\n  {}\n", step.en, step.zh)).collect()
}

#[cfg(test)]
mod tests;
