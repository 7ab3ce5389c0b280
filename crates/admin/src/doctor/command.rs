//! `vostok doctor`: the command line, and the shell that gathers, waits, writes and prints.

use super::bundle::{Bundle, FORMAT};
use super::chain::{Chain, Link, Target, chains};
use super::finding::{State, judge};
use super::gather::{Scope, Watch, gather, local_brokers, look_again};
use super::memory::Memory;
use super::report::Diagnosis;
use super::{checks, machine, os_script};
use crate::command::print;
use crate::output::{Format, render};
use crate::shell::{Access, now_ms, session};
use crate::{Error, Lang, Session};
use clap::{Args, Subcommand, ValueEnum};
use host::Facts;
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Exit codes: nothing found; something found; could not look.
const CLEAN: u8 = 0;
const FOUND: u8 = 1;
const BLIND: u8 = 2;

/// Format of the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Text for people.
    Table,
    /// JSON for programs.
    Json,
}

/// When the machine is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Host {
    /// When a broker is on this machine.
    Auto,
    /// Always.
    Yes,
    /// Never.
    No,
}

/// Find out what is wrong in a cluster of Vostok or Apache RocketMQ.
#[derive(Args, Debug)]
#[command(after_help = "Exit code 0: nothing found; 1: findings; 2: could not look. Nothing is changed.")]
pub struct DoctorCommand {
    /// Name servers; otherwise those of NAMESRV_ADDR, otherwise 127.0.0.1:9876.
    #[arg(short, long, global = true, value_name = "HOST:PORT;...")]
    namesrv: Option<String>,
    /// Format of the verdict.
    #[arg(short, long, global = true, default_value = "table")]
    output: Output,
    /// File with accessKey and secretKey; otherwise conf/tools.yml of ROCKETMQ_HOME.
    #[arg(long, global = true, value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// Judge this bundle and ask no server.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "namesrv"])]
    bundle: Option<PathBuf>,
    /// Write what was gathered to a file, too, without bodies and secrets.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Whether this machine is looked at too.
    #[arg(long, default_value = "auto")]
    host: Host,
    /// Seconds between two looks at groups with lag and throttled control groups, and of watching tables of RocketMQ's name servers;
    /// 0 looks once.
    #[arg(long, global = true, value_name = "SECONDS", default_value = "6")]
    sample: u16,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Look at this machine alone, and judge every line of RocketMQ's os.sh.
    Host {
        /// Directory of a store, whose disk and file system are looked at.
        #[arg(long, value_name = "DIRECTORY", default_value = ".")]
        store: PathBuf,
    },
    /// Follow messages through a queue from producer to commit, and say where the way breaks.
    Queue {
        /// Topic and number of the queue.
        #[arg(value_name = "TOPIC/QUEUE", value_parser = topic_and_queue)]
        queue: (String, i32),
        /// Consumer group.
        #[arg(short, long)]
        group: String,
        /// Only the queue of this broker set.
        #[arg(long, value_name = "NAME")]
        broker: Option<String>,
    },
}

fn topic_and_queue(text: &str) -> Result<(String, i32), String> {
    let expected = || format!("expected TOPIC/QUEUE, for example orders/0, found {text}");
    let (topic, queue) = text.rsplit_once('/').ok_or_else(expected)?;
    let queue = queue.parse().ok().filter(|queue| *queue >= 0).ok_or_else(expected)?;
    Ok((topic.to_owned(), queue))
}

impl DoctorCommand {
    /// Looks, prints in a language what was found, and returns the exit code: 0 when nothing was found, 1 for findings, 2 without data.
    ///
    /// # Errors
    /// [`Error`] when no name server answers, a bundle cannot be read, or it cannot be written or printed.
    pub fn run(&self, lang: Lang) -> Result<u8, Error> {
        match &self.what {
            None => self.cluster(lang),
            Some(What::Host { store }) => self.machine(store, lang),
            Some(What::Queue { queue, group, broker }) => self.queue(&Target {
                topic: queue.0.clone(),
                queue: queue.1,
                broker: broker.clone(),
                group: group.clone(),
            }),
        }
    }

    fn cluster(&self, lang: Lang) -> Result<u8, Error> {
        let bundle = match &self.bundle {
            Some(file) => read(file)?,
            None => self.gather(&Scope::default())?,
        };
        if let Some(file) = &self.save {
            save(file, &bundle)?;
        }
        let diagnosis = Diagnosis::of(&bundle, judge(&bundle, checks::all()));
        print(&match self.output {
            Output::Table => diagnosis.text(lang),
            Output::Json => render(&diagnosis.value(lang), Format::Json),
        })?;
        Ok(code(&diagnosis))
    }

    fn gather(&self, scope: &Scope) -> Result<Bundle, Error> {
        let access = Access {
            name_servers: self.namesrv.clone(),
            credentials: self.credentials.clone(),
            ..Access::default()
        };
        let first = MachineLook::at(&machine_with(Vec::new()));
        let mut bundle = session(&access, async |session: &Session| {
            let mut bundle = gather(session, scope, now_ms).await?;
            // Who else runs under a broker's name is of no matter to one queue.
            let mut watch = if scope.topic.is_some() { Watch::default() } else { Watch::new(&bundle) };
            if self.sample > 0 {
                look_again(session, &mut bundle, &mut watch, self.sample).await;
            }
            watch.finish(session, &mut bundle, now_ms).await;
            Ok(bundle)
        })?;
        let here = local_brokers(&bundle);
        if self.host == Host::Yes || self.host == Host::Auto && here.is_some() {
            let here = here.unwrap_or_else(|| machine_with(Vec::new()));
            bundle.host = Some(first.again(&here, self.sample));
        }
        Ok(bundle)
    }

    fn machine(&self, store: &Path, lang: Lang) -> Result<u8, Error> {
        if !store.is_dir() {
            return Err(Error::Usage(format!("expected a directory as --store, found {}", store.display())));
        }
        let store = std::path::absolute(store)?;
        let here = machine_with(vec![store]);
        let facts = MachineLook::at(&here).again(&here, self.sample);
        let rows = serde_json::to_value(os_script::rows(&facts)).expect("text only");
        let bundle = Bundle { format: FORMAT, taken_at_ms: now_ms(), host: Some(facts), ..Bundle::default() };
        let diagnosis = Diagnosis::of(&bundle, judge(&bundle, machine::CHECKS.iter()));
        let text = match self.output {
            Output::Table => {
                let report = diagnosis.text(lang);
                let report = report.split_once('\n').map_or("", |(_, rest)| rest).trim_start().to_owned();
                let title = lang.pick(
                    "Lines of RocketMQ's os.sh, for a broker of Vostok:",
                    "RocketMQ 的 os.sh 各行对 Vostok broker 的作用：",
                );
                format!("{report}\n{title}\n{}", render(&rows, Format::Table))
            }
            Output::Json => {
                let mut value = diagnosis.value(lang);
                value["os_sh"] = rows;
                render(&value, Format::Json)
            }
        };
        print(&text)?;
        Ok(code(&diagnosis))
    }

    fn queue(&self, target: &Target) -> Result<u8, Error> {
        let (topic, group) = (Some(target.topic.clone()), Some(target.group.clone()));
        let scope = Scope { topic, group, is_brief: false };
        let bundle = self.gather(&scope)?;
        let chains = chains(&bundle, target);
        if chains.is_empty() {
            return Err(Error::NotFound(format!("no name server has a route of the topic {}", target.topic)));
        }
        print(&match self.output {
            Output::Json => render(&json!({"chains": chains}), Format::Json),
            Output::Table => chains.iter().map(chain_text).collect::<Vec<_>>().join("\n"),
        })?;
        Ok(if chains.iter().any(|chain| chain.breaks_at.is_some()) { FOUND } else { CLEAN })
    }
}

/// Checks the cluster once, with the memory of earlier checks. A brief check leaves out groups and most topics. This machine is checked
/// if a broker runs here. If no name server answers, this is the only finding.
pub async fn diagnose(session: &Session, memory: &mut Memory, is_brief: bool) -> Diagnosis {
    let scope = Scope { is_brief, ..Scope::default() };
    let mut bundle = match gather(session, &scope, now_ms).await {
        Ok(bundle) => bundle,
        Err(error) => Bundle::without_answer(&session.name_servers, &error, now_ms()),
    };
    Watch::new(&bundle).finish(session, &mut bundle, now_ms).await;
    memory.note(&mut bundle);
    memory.groups.compare(session, &mut bundle).await;
    let now_ms = bundle.taken_at_ms;
    bundle.host = local_brokers(&bundle).map(|here| memory.note_machine(Facts::read(&here), now_ms));
    let mut verdicts = judge(&bundle, checks::all());
    memory.settle(&mut verdicts, bundle.taken_at_ms);
    Diagnosis { is_brief, ..Diagnosis::of(&bundle, verdicts) }
}

/// The exit code of a verdict.
fn code(diagnosis: &Diagnosis) -> u8 {
    match (diagnosis.count(State::Finding), diagnosis.count(State::Pass)) {
        (1.., _) => FOUND,
        (0, 1..) => CLEAN,
        (0, 0) => BLIND,
    }
}

fn chain_text(chain: &Chain) -> String {
    let mut out = format!("{} for {}\n", chain.queue, chain.group);
    for step in &chain.steps {
        let state = match step.state {
            Link::Passes => "passes",
            Link::Broken => "BROKEN",
            Link::Unknown => "unknown",
        };
        let _ = writeln!(out, "  {:<18}  {state:<7}  {}", step.step, step.figure);
    }
    let _ = match chain.breaks_at {
        Some(step) => writeln!(out, "It breaks at: {step}"),
        None => writeln!(out, "It does not break as far as anybody says."),
    };
    out
}

/// A look at the machine, with its time.
struct MachineLook(Facts, i64);

impl MachineLook {
    fn at(source: &host::Source) -> Self {
        Self(Facts::read(source), now_ms())
    }

    /// Facts of the machine with the growth of the counts of the control group since this look, `seconds` later if the group was ever
    /// throttled. With 0 seconds the growth is absent.
    #[expect(clippy::disallowed_methods, reason = "the shell of a command that looks twice")]
    fn again(&self, source: &host::Source, seconds: u16) -> Facts {
        let left_ms = i64::from(seconds) * 1000 - (now_ms() - self.1);
        if let Ok(left_ms @ 1..) = u64::try_from(left_ms)
            && self.0.was_throttled()
        {
            std::thread::sleep(Duration::from_millis(left_ms));
        }
        let now = Facts::read(source);
        if seconds == 0 { now } else { now.since(&self.0) }
    }
}

/// This machine with all its brokers, and the disks of these directories.
fn machine_with(paths: Vec<PathBuf>) -> host::Source {
    host::Source { root: "/".into(), paths, broker_ports: Vec::new() }
}

fn read(file: &Path) -> Result<Bundle, Error> {
    let unreadable = |why: String| Error::Usage(format!("cannot read the bundle {}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|why| unreadable(why.to_string()))?;
    let bundle: Bundle = serde_json::from_str(&text).map_err(|why| unreadable(why.to_string()))?;
    match bundle.format {
        FORMAT => Ok(bundle),
        other => Err(unreadable(format!("expected a bundle of format {FORMAT}, found {other}"))),
    }
}

/// Writes a bundle that only its owner may read, since it names hosts and users.
fn save(file: &Path, bundle: &Bundle) -> Result<(), Error> {
    use std::io::Write as _;
    let text = serde_json::to_string_pretty(bundle).expect("a bundle has text as keys");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut out = options
        .open(file)
        .map_err(|why| Error::Usage(format!("cannot write the bundle {}: {why}", file.display())))?;
    Ok(out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n"))?)
}

#[cfg(test)]
mod tests {
    use super::super::checks::tests::healthy;
    use super::*;
    use clap::{Command, FromArgMatches};

    fn parse(line: &str) -> Result<DoctorCommand, clap::Error> {
        let command = DoctorCommand::augment_args(Command::new("doctor"));
        DoctorCommand::from_arg_matches(&command.try_get_matches_from(line.split(' '))?)
    }

    fn exit_code(bundle: &Bundle) -> u8 {
        code(&Diagnosis::of(bundle, judge(bundle, checks::all())))
    }

    #[test]
    fn the_command_line_is_consistent() {
        DoctorCommand::augment_args(Command::new("doctor")).debug_assert();
        let command = parse("doctor queue a/b/3 -g G -n h:1 -o json").unwrap();
        assert!(matches!(&command.what, Some(What::Queue { queue, .. }) if *queue == ("a/b".to_owned(), 3)));
        assert_eq!(command.namesrv.as_deref(), Some("h:1"));
        for wrong in
            ["doctor queue a -g G", "doctor queue a/-1 -g G", "doctor --bundle f --save g", "doctor fly"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_store_that_is_no_directory_is_refused() {
        let command = parse("doctor host --store /no/such").unwrap();
        assert_eq!(
            command.run(Lang::En).unwrap_err().to_string(),
            "expected a directory as --store, found /no/such"
        );
    }

    #[test]
    fn a_saved_bundle_is_judged_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("bundle.json");
        let mut bundle = healthy();
        bundle.groups[0].is_online = Some(false);
        bundle.groups[0].progress[0].max += 7;
        save(&file, &bundle).unwrap();
        let again = read(&file).unwrap();
        let codes = |bundle: &Bundle| {
            let verdicts = judge(bundle, checks::all());
            verdicts.iter().map(|verdict| (verdict.code, verdict.state, verdict.looked)).collect::<Vec<_>>()
        };
        assert_eq!(codes(&again), codes(&bundle));
        assert_eq!(exit_code(&again), FOUND);
        std::fs::write(&file, "{\"format\":99}").unwrap();
        assert!(read(&file).unwrap_err().to_string().contains("found 99"));
        std::fs::write(&file, "no json").unwrap();
        assert!(read(&file).is_err());
    }

    #[test]
    fn the_exit_code_says_whether_anybody_looked() {
        assert_eq!(exit_code(&Bundle::default()), BLIND);
        assert_eq!(exit_code(&healthy()), CLEAN);
    }
}
