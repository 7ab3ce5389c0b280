//! `vostok lab TOOL …`: the command line of the lab.

mod argv;
mod common;
mod failover;
mod fill;
mod scenario;
mod script;
#[cfg(test)]
mod tests;
mod tools;
mod values;
mod vary;

use crate::compare::CompareOptions;
use crate::export::ReportOptions;
use crate::judge::Language;
use crate::plan::PlanOptions;
use crate::{Error, output};
use argv::long_options;
use clap::{Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use failover::FailoverFlags;
use scenario::{BacklogFlags, MatrixFlags, ModesFlags, QueuesFlags, SafeTpsFlags, SeedFlags, SoakFlags};
use script::{BatchProducerFlags, ConsumerFlags, ProducerFlags, TransactionProducerFlags};
use tools::{AgentFlags, CleanFlags, EchoFlags, SelftestFlags};

/// Arguments of `vostok lab`. They are taken unparsed, because the flags of RocketMQ's scripts must be rewritten before
/// clap sees them.
#[derive(clap::Args, Debug, Clone)]
#[command(disable_help_flag = true)]
pub struct Lab {
    /// A tool and its flags; `vostok lab --help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "TOOL")]
    arguments: Vec<String>,
    /// Translation into Chinese; `None` for English.
    #[arg(skip)]
    translation: Option<Translation>,
}

/// Translation of help, lines and errors into Chinese.
#[derive(Clone, Copy, Debug)]
pub struct Translation {
    /// Translates the texts of a command.
    pub command: fn(Command) -> Command,
    /// Translates what `clap` prints.
    pub output: fn(&str) -> String,
    /// Translates a line or an error of a tool.
    pub message: fn(&str) -> String,
}

/// The tools of the lab.
#[derive(Parser, Debug)]
#[command(name = "vostok lab", about = "Load generation and measurement against any RocketMQ cluster")]
struct Tools {
    /// Language of output and reports, en or zh; else that of LC_ALL, LC_MESSAGES or LANG.
    #[arg(long, global = true, value_enum, value_name = "LANG")]
    lang: Option<Language>,
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand, Debug)]
enum Tool {
    /// Sends messages and reports rate and latency (producer.sh).
    Producer(ProducerFlags),
    /// Consumes messages and reports rate and delay (consumer.sh).
    Consumer(ConsumerFlags),
    /// Sends batches of messages (batchproducer.sh).
    Batchproducer(BatchProducerFlags),
    /// Sends half messages, commits them and answers transaction checks (tproducer.sh).
    Tproducer(TransactionProducerFlags),
    /// Runs every combination of threads, sizes and queues.
    Matrix(MatrixFlags),
    /// Searches the highest rate that keeps every guard.
    SafeTps(SafeTpsFlags),
    /// Compares flush and replication modes.
    Modes(ModesFlags),
    /// Runs a matrix over numbers of queues.
    Queues(QueuesFlags),
    /// Builds up a backlog and drains it while producers go on.
    Backlog(BacklogFlags),
    /// Runs for hours and checks every message.
    Soak(SoakFlags),
    /// Takes the master away, again and again, and measures how long clients wait and what is lost.
    Failover(FailoverFlags),
    /// Runs the cells of one of the five reports on which this lab is modelled.
    Seed(SeedFlags),
    /// Removes the topics and groups that a run could not remove itself, because it was killed or a broker was away.
    Clean(CleanFlags),
    /// Measures the limits of this machine.
    Selftest(SelftestFlags),
    /// Reports this machine and the broker on it to a lab on another machine.
    Agent(AgentFlags),
    /// Answers sends without storing anything: the limit of the network.
    Echo(EchoFlags),
    /// Judges a run and writes its report: HTML, Markdown, CSV and JSON.
    Report(ReportOptions),
    /// Compares two runs: better, equal or worse in every cell.
    Compare(CompareOptions),
    /// Plans a cluster from a run's safe rate and a target.
    Plan(Box<PlanOptions>),
}

impl Lab {
    /// Takes arguments from a source other than clap, such as an example program.
    pub fn new(arguments: impl IntoIterator<Item = String>) -> Self {
        Self { arguments: arguments.into_iter().collect(), translation: None }
    }

    /// Returns these arguments with help, lines and errors in Chinese.
    #[must_use]
    pub fn translated(self, translation: Translation) -> Self {
        Self { translation: Some(translation), ..self }
    }

    /// The command line of all tools.
    pub fn tools() -> Command {
        Tools::command()
    }

    fn parsed(self) -> Result<Tools, clap::Error> {
        let arguments = long_options(self.arguments);
        let command = match self.translation {
            Some(translation) => (translation.command)(Self::tools()),
            None => Self::tools(),
        };
        let matches =
            command.try_get_matches_from(std::iter::once("vostok lab".to_owned()).chain(arguments))?;
        Tools::from_arg_matches(&matches)
    }
}

/// Runs a tool to its end. Help and version texts count as a successful run.
///
/// # Errors
/// [`Error::Usage`] or [`Error::Flag`] when the flags are wrong; [`Error::File`], [`Error::System`] or
/// [`Error::Cluster`] when a file, a socket or the cluster fails at the start. Failed sends are counted; it is an error
/// when all of them failed.
pub fn run(lab: Lab) -> Result<(), Error> {
    let same: fn(&str) -> String = str::to_owned;
    let (language, output, message) =
        lab.translation.map_or((Language::En, same, same), |it| (Language::Zh, it.output, it.message));
    match lab.parsed() {
        Ok(Tools { lang, tool }) => {
            let language = lang.unwrap_or(language);
            output::speak(language, message);
            perform(tool, language).and(output::check())
        }
        Err(text) if text.use_stderr() => Err(Error::Usage(output(&text.to_string()))),
        Err(text) => {
            output::raw(output(&text.to_string()).trim_end());
            output::check()
        }
    }
}

fn perform(tool: Tool, lang: Language) -> Result<(), Error> {
    match tool {
        Tool::Producer(flags) => crate::script::run(&flags.script_run()),
        Tool::Consumer(flags) => crate::script::run(&flags.script_run()?),
        Tool::Batchproducer(flags) => crate::script::run(&flags.script_run()?),
        Tool::Tproducer(flags) => crate::script::run(&flags.script_run()?),
        Tool::Matrix(flags) => flags.run(),
        Tool::SafeTps(flags) => flags.run(),
        Tool::Modes(flags) => flags.run(),
        Tool::Queues(flags) => flags.run(),
        Tool::Backlog(flags) => flags.run(),
        Tool::Soak(flags) => flags.run(),
        Tool::Failover(flags) => flags.run(),
        Tool::Seed(flags) => flags.run(),
        Tool::Clean(flags) => flags.run(),
        Tool::Selftest(flags) => flags.run(),
        Tool::Agent(flags) => flags.run(),
        Tool::Echo(flags) => flags.run(),
        Tool::Report(options) => crate::export::run(&ReportOptions { lang, ..options }),
        Tool::Compare(options) => crate::compare::run(&CompareOptions { lang, ..options }),
        Tool::Plan(options) => crate::plan::run(&PlanOptions { lang, ..*options }),
    }
}
