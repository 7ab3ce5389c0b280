//! `vostok-sim`: runs seeds for a given time, or a given number of seeds. With `--planted` it then
//! searches for each planted bug. The last line of the output has the result.

use sim::settings::{BUGS, Planted, SCENARIOS, Scenario};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Options of the command line.
#[derive(Default)]
struct Options {
    scenario: Option<Scenario>,
    bug: Option<&'static Planted>,
    first: u64,
    count: Option<u64>,
    seconds: Option<u64>,
    is_printed: bool,
    lists_bugs: bool,
    finds_planted: bool,
}

/// Number of seeds within which every planted bug must be found.
const PLANTED_SEEDS_MAX: u64 = 2_000;

const USAGE: &str = "vostok-sim [--seconds N | --seeds FIRST..END] [--scenario NAME] [--bug NAME] [--planted] [--print] | --bugs";

fn options() -> Result<Options, String> {
    let mut options = Options::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--print" => options.is_printed = true,
            "--bugs" => options.lists_bugs = true,
            "--planted" => options.finds_planted = true,
            "--seconds" => options.seconds = Some(value()?.parse().map_err(|_| USAGE)?),
            "--scenario" => {
                let name = value()?;
                options.scenario = Some(Scenario::named(&name).ok_or(format!("no scenario `{name}`"))?);
            }
            "--bug" => {
                let name = value()?;
                let bug = BUGS.iter().find(|bug| bug.name == name).ok_or(format!("no bug `{name}`"))?;
                options.bug = Some(bug);
                options.scenario = options.scenario.or(Scenario::named(bug.scenario));
            }
            "--seeds" => {
                let seeds = value()?;
                let (first, end) = seeds.split_once("..").ok_or(USAGE)?;
                options.first = first.parse().map_err(|_| USAGE)?;
                let end: u64 = end.parse().map_err(|_| USAGE)?;
                options.count = Some(end.saturating_sub(options.first));
            }
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(options)
}

fn commit() -> String {
    let output = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let text = output.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).unwrap_or("unknown".to_owned())
}

#[expect(clippy::disallowed_methods, reason = "how long to go on is the one question to the real clock")]
fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    if options.lists_bugs {
        BUGS.iter().for_each(|bug| println!("{}", bug.name));
        return ExitCode::SUCCESS;
    }
    if !options.is_printed {
        // A panic is a failure of its seed, which is reported as one line.
        std::panic::set_hook(Box::new(|_| {}));
    }
    let started = Instant::now();
    let is_over = |done: u64| match (options.count, options.seconds) {
        (Some(count), _) => done >= count,
        (None, seconds) => started.elapsed() >= Duration::from_secs(seconds.unwrap_or(60)),
    };
    // Fresh seeds each time, unless some are named.
    let first = if options.count.is_some() { options.first } else { fresh() };
    let (mut done, mut failed, mut events, mut acknowledged, mut elections) = (0, 0, 0, 0, 0);
    while !is_over(done) {
        let seed = first + done;
        let scenario =
            options.scenario.unwrap_or(SCENARIOS[usize::try_from(done).unwrap_or(0) % SCENARIOS.len()]);
        let outcome = sim::run(seed, scenario, options.bug.map(|bug| bug.bug), options.is_printed);
        done += 1;
        events += outcome.events;
        acknowledged += outcome.acknowledged;
        elections += outcome.elections;
        if let Some(failure) = outcome.failure {
            failed += 1;
            let (name, end, commit) = (scenario.name, seed + 1, commit());
            let bug = options.bug.map_or(String::new(), |bug| format!(" --bug {}", bug.name));
            println!(
                "FAIL seed={seed} commit={commit} scenario={name}: {failure}; again: vostok-sim --seeds {seed}..{end} --scenario {name}{bug} --print"
            );
            if options.bug.is_some() {
                println!("planted bug found after {done} seeds");
                return ExitCode::SUCCESS;
            }
        }
        if options.count == Some(1) {
            println!("seed={seed} trace={:016x}", outcome.hash);
        }
    }
    let hours = done * sim::world::END_MS / 3_600_000;
    println!(
        "{done} seeds from {first}, {hours} simulated hours, {events} events, {acknowledged} messages acknowledged, {elections} masters, {} s",
        started.elapsed().as_secs()
    );
    let mut passed = done - failed;
    if options.finds_planted {
        let missed = BUGS.iter().filter(|bug| !is_found(bug)).count() as u64;
        passed += BUGS.len() as u64 - missed;
        failed += missed;
    }
    println!("sim: {passed} passed, {failed} failed, 0 skipped");
    if failed == 0 && options.bug.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether a planted bug fails one of the first seeds of its search. Prints the number of seeds until the failure.
fn is_found(planted: &Planted) -> bool {
    let Planted { name, bug, scenario, first_seed } = *planted;
    let scenario = Scenario::named(scenario).expect("every planted bug names a scenario of the table");
    let mut seeds = first_seed..first_seed + PLANTED_SEEDS_MAX;
    let found = seeds.find(|&seed| sim::run(seed, scenario, Some(bug), false).failure.is_some());
    match found {
        Some(seed) => {
            println!("{name}: planted bug found after {} seeds from {first_seed}", seed + 1 - first_seed)
        }
        None => println!(
            "FAILED: the planted bug {name} was not found in {PLANTED_SEEDS_MAX} seeds from {first_seed}"
        ),
    }
    found.is_some()
}

#[expect(clippy::disallowed_methods, reason = "a fresh seed")]
fn fresh() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| since.as_secs() * 1_000)
}
