//! `vostok lab compare A B`: compares two runs cell by cell, as text and as a page.

mod cost;
mod page;

pub use cost::Cost;
pub use page::chapter;

use crate::Error;
use crate::archive::{Record, RunFile, run_directory, write_whole};
use crate::judge::conclusion::Conclusion;
use crate::judge::guards::Limits;
use crate::judge::scale::{self, ScaleOut};
use crate::judge::selftest::without_beaten;
use crate::judge::versus::{self, Aspect, Pairing, Verdict, Versus, apart, price_per_million};
use crate::judge::{Judged, Language, Text, both, numbers};
use crate::output::raw;
use crate::sentences::{Sentence, joined, ratio_text, reservation, verdict};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Share of its safe rate at which a system is assumed to run when its price per message is computed.
const PLANNED: f64 = 0.7;

/// Two runs to compare.
#[derive(Args, Debug, Clone)]
pub struct CompareOptions {
    /// Directory of the run to compare with, or a file in it such as run.json.
    #[arg(value_name = "A", value_parser = run_directory)]
    pub first: PathBuf,
    /// Directory of the run that is compared.
    #[arg(value_name = "B", value_parser = run_directory)]
    pub second: PathBuf,
    /// Cost of one of the two systems, e.g. `A=6900cny/mo`; also per `h`, `day` or `y`.
    #[arg(long, value_name = "RUN=PRICE")]
    pub cost: Vec<Cost>,
    /// Compares the machines together with the servers, such as a cluster in a cloud with one of your own. Without it
    /// nothing is judged when the self-tests of the two runs differ.
    #[arg(long)]
    pub across_machines: bool,
    /// File of the page [default: compare.html beside B's report].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Language of the text, and in which the page opens.
    #[arg(skip)]
    pub lang: Language,
}

/// The comparison of two runs, with their names and costs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Comparison {
    /// Name of the first run.
    pub first: String,
    /// Name of the second run.
    pub second: String,
    /// The comparison cell by cell, and its totals.
    pub versus: Versus,
    /// Price per million messages of the runs for which a cost was given.
    pub prices: Vec<Text>,
    /// Gain from more masters; `None` when both runs have the same number of masters.
    #[serde(default)]
    pub scale_out: Option<ScaleOut>,
}

/// Compares two runs, prints the result and writes the page.
///
/// # Errors
/// [`Error::File`] when a run cannot be read or the page cannot be written.
pub fn run(options: &CompareOptions) -> Result<(), Error> {
    let read = |run: &Path| Record::read(run).map(without_beaten);
    let (first, second) = (read(&options.first)?, read(&options.second)?);
    let concluded = |record| Conclusion::new(record, &Limits::of(&record.file));
    let (one, other) = (concluded(&first), concluded(&second));
    let mut comparison = Comparison::new((&one, &other), &options.cost);
    if !options.across_machines {
        comparison.versus = comparison.versus.without_verdicts(apart(&first.file, &second.file));
    }
    for line in comparison.lines() {
        raw(line.get(options.lang));
    }
    let path = options.out.clone().unwrap_or_else(|| options.second.join("compare.html"));
    let place = |run: &Path| way(path.parent().unwrap_or(Path::new(".")), run);
    let places = (place(&options.first), place(&options.second));
    let data = path.with_extension("json");
    let name = data.file_name().unwrap_or_default().to_string_lossy();
    let places = ((places.0.as_str(), places.1.as_str()), &*name);
    write_whole(&path, &page::page(&comparison, (&one, &other), places, options.lang))?;
    write_whole(&data, &serde_json::to_string_pretty(&comparison).expect("texts and numbers become JSON"))?;
    raw(&format!("{}\n{}", path.display(), data.display()));
    Ok(())
}

/// The relative link from one directory to another: empty, or ending in a slash. If one of the directories cannot be
/// resolved, the other one as it was named.
fn way(from: &Path, to: &Path) -> String {
    let from = if from.as_os_str().is_empty() { Path::new(".") } else { from };
    let (Ok(from), Ok(to)) = (from.canonicalize(), to.canonicalize()) else {
        return format!("{}/", to.display());
    };
    let common = from.components().zip(to.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(common).map(|_| "..".to_owned());
    let down = to.components().skip(common).map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).map(|part| part + "/").collect()
}

impl Comparison {
    /// Compares two runs that are judged already.
    pub fn new((first, second): (&Conclusion<'_>, &Conclusion<'_>), costs: &[Cost]) -> Self {
        let versus = versus::versus(&judged(first), &judged(second), first.record.file.seed);
        let (one, other) = names(&first.record.file, &second.record.file);
        let scale_out = scale::scale_out((first, second), &versus);
        let price = |cost: &Cost| price(cost, if cost.first { first } else { second });
        Self {
            first: format!("A {one}"),
            second: format!("B {other}"),
            versus,
            scale_out,
            prices: costs.iter().filter_map(price).collect(),
        }
    }

    /// The whole comparison, one line each.
    pub fn lines(&self) -> Vec<Text> {
        let (first, second) = (&self.first, &self.second);
        let mut lines = vec![both!("compare.second-against-first", second, first)];
        lines.extend(self.summary());
        lines.extend(self.versus.pairings.iter().map(pairing_line));
        for (factors, why) in &self.versus.left_out {
            lines.push(both!("compare.cell-left-out", cell = cell_name(factors), text = why.sentence()));
        }
        lines
    }

    /// The lines about all cells together.
    pub fn summary(&self) -> Vec<Text> {
        let mut lines = Vec::new();
        let count =
            |verdict| self.versus.pairings.iter().filter(|pairing| pairing.verdict == verdict).count();
        let [better, equal, worse, open] =
            [Verdict::Better, Verdict::Equal, Verdict::Worse, Verdict::Undecided].map(count);
        let (unmatched, out) = (self.versus.unmatched, self.versus.left_out.len());
        if let Some(why) = joined(&self.versus.apart) {
            let cells = self.versus.pairings.len();
            lines.push(both!("compare.not-comparable-run-both", why));
            lines.push(both!("compare.cells-cells-both-none", cells, out, unmatched));
            return lines;
        }
        lines.push(both!("compare.cells-better-better-equal", better, equal, worse, open, out, unmatched));
        lines.extend(self.versus.modes.iter().map(Sentence::sentence));
        if let Some(ratio) = &self.versus.capacity {
            let (value, times) = (ratio_text(ratio), ratio.mean);
            lines.push(both!("compare.capacity-closed-loop-geometric", times, value));
            lines.extend(reservation(&self.versus.ladders));
        }
        match &self.versus.latency {
            Some(ratio) => {
                let (value, times) = (ratio_text(ratio), ratio.mean);
                lines.push(both!("compare.p99-equal-rate-geometric", times, value));
            }
            None => lines.push(both!("compare.latency-equal-rate-not")),
        }
        if let Some(cpu) = self.versus.cpu {
            lines.push(both!("compare.broker-cpu-per-message", times = cpu));
        }
        lines.extend(self.scale_out.iter().map(|scale| scale.says.sentence()));
        lines.extend(self.prices.iter().cloned());
        lines
    }
}

/// Names of two runs: the targets, and the parts that distinguish the runs.
fn names(first: &RunFile, second: &RunFile) -> (String, String) {
    let parts: [fn(&RunFile) -> String; 5] = [
        |file| file.target.name.clone(),
        |file| file.target.version.clone(),
        |file| file.target.namesrv.clone(),
        |file| file.id.clone(),
        |file| numbers::utc(file.started_ms),
    ];
    let mut names = (Vec::new(), Vec::new());
    for (index, part) in parts.into_iter().enumerate() {
        let (one, other) = (part(first), part(second));
        // The target is always named, everything else where it differs.
        if index == 0 || one != other {
            names.0.extend(Some(one).filter(|name| !name.is_empty()));
            names.1.extend(Some(other).filter(|name| !name.is_empty()));
        }
        if names.0 != names.1 && !names.0.is_empty() && !names.1.is_empty() {
            break;
        }
    }
    (names.0.join(", "), names.1.join(", "))
}

fn judged<'a>(run: &Conclusion<'a>) -> Vec<Judged<'a>> {
    // Probes are left out, because a search tries other rates on every cluster.
    run.cells.iter().filter(|case| !case.is_probe()).map(|case| case.judged.clone()).collect()
}

fn price(cost: &Cost, run: &Conclusion<'_>) -> Option<Text> {
    let letter = if cost.first { "A" } else { "B" };
    let safe = run.safe.as_ref().map(|safe| safe.tps.mean);
    let highest = run.top.and_then(|top| run.cells[top].judged.figures()).map(|figures| figures.tps.mean);
    let (rate, kind) = match (safe, highest) {
        (Some(tps), _) => (tps, both!("compare.highest-safe-rate")),
        (None, Some(tps)) => (tps, both!("compare.highest-rate-not-safe")),
        (None, None) => return None,
    };
    let price = price_per_million(cost.per_month, rate, PLANNED);
    let (currency, month, share) = (&cost.currency, cost.per_month, PLANNED);
    Some(both!("compare.letter-month-currency-month", letter, month, currency, rate, kind, share, price))
}

/// The factors of a cell in short: `60 threads, 1k, 8 queues`.
pub fn cell_name(factors: &crate::archive::Factors) -> String {
    let load = factors.rate.map_or_else(|| format!("w{}", factors.threads), numbers::rate);
    let size = numbers::size(factors.size);
    let mut name = format!("{load} {size} q{}", factors.queues);
    for word in [&factors.flush, &factors.replication].into_iter().filter(|word| !word.is_empty()) {
        name.push(' ');
        name.push_str(word);
    }
    for (key, value) in &factors.more {
        name.push_str(&format!(" {key}={value}"));
    }
    name
}

/// The name of the figure that is compared in a cell.
pub fn aspect_name(pairing: &Pairing) -> Text {
    let (threads, rate) = (pairing.factors.threads, pairing.factors.rate.map(numbers::rate));
    match (pairing.aspect, rate) {
        (Aspect::Capacity, _) => both!("compare.capacity"),
        (Aspect::RateAtLoad, None) => both!("compare.rate-threads-flight", threads),
        (Aspect::RateAtLoad, Some(rate)) => both!("compare.rate-rate-sent", rate),
        (Aspect::LatencyAtRate, _) => both!("compare.p99-equal-rate"),
        (Aspect::RoundTrip, _) => both!("compare.round-trip"),
    }
}

/// Writes a figure of a cell with its unit.
pub fn figure(aspect: Aspect, value: f64) -> String {
    match aspect {
        Aspect::Capacity | Aspect::RateAtLoad => numbers::rate(value),
        Aspect::LatencyAtRate | Aspect::RoundTrip => numbers::micros(value),
    }
}

fn pairing_line(pairing: &Pairing) -> Text {
    let (cell, ratio) = (cell_name(&pairing.factors), ratio_text(&pairing.ratio));
    let (one, other) = (figure(pairing.aspect, pairing.first), figure(pairing.aspect, pairing.second));
    let (verdict, aspect) = (verdict(pairing), aspect_name(pairing));
    if pairing.verdict == Verdict::Undecided {
        return both!("compare.cell-what-one-other-ratio", cell, aspect, one, other, ratio, verdict);
    }
    both!("compare.cell-what-one-other", cell, verdict, aspect, one, other, ratio)
}

#[cfg(test)]
mod tests;
