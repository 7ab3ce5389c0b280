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
use crate::output::say;
use crate::plan::PlanOptions;
use crate::{Error, output};
use argv::long_options;
use clap::{Command, CommandFactory as _, FromArgMatches as _, Parser};
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
    /// Translation of help; `None` for English.
    #[arg(skip)]
    translation: Option<Translation>,
}

/// Translation of help into another language.
#[derive(Clone, Copy, Debug)]
pub struct Translation {
    /// Translates the texts of a command.
    pub command: fn(Command) -> Command,
    /// Translates what `clap` prints.
    pub output: fn(&str) -> String,
}

/// The tools of the lab.
#[derive(Parser, Debug)]
#[command(name = "vostok lab", about = "Load generation and measurement against any RocketMQ cluster")]
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

    /// Returns these arguments with help and messages about wrong flags in another language.
    #[must_use]
    pub fn translated(self, translation: Translation) -> Self {
        Self { translation: Some(translation), ..self }
    }

    /// The command line of all tools.
    pub fn tools() -> Command {
        Tool::command()
    }

    fn tool(self) -> Result<Tool, clap::Error> {
        let arguments = long_options(self.arguments);
        let command = match self.translation {
            Some(translation) => (translation.command)(Self::tools()),
            None => Self::tools(),
        };
        let matches =
            command.try_get_matches_from(std::iter::once("vostok lab".to_owned()).chain(arguments))?;
        Tool::from_arg_matches(&matches)
    }
}

/// Runs a tool to its end. Help and version texts count as a successful run.
///
/// # Errors
/// [`Error::Usage`] or [`Error::Flag`] when the flags are wrong; [`Error::File`], [`Error::System`] or
/// [`Error::Cluster`] when a file, a socket or the cluster fails at the start. Failed sends are counted; it is an error
/// when all of them failed.
pub fn run(lab: Lab) -> Result<(), Error> {
    let translate = lab.translation.map_or(str::to_owned as fn(&str) -> String, |it| it.output);
    perform(lab.tool(), translate).and(output::check())
}

fn perform(tool: Result<Tool, clap::Error>, translate: fn(&str) -> String) -> Result<(), Error> {
    match tool {
        Ok(Tool::Producer(flags)) => crate::script::run(&flags.script_run()),
        Ok(Tool::Consumer(flags)) => crate::script::run(&flags.script_run()?),
        Ok(Tool::Batchproducer(flags)) => crate::script::run(&flags.script_run()?),
        Ok(Tool::Tproducer(flags)) => crate::script::run(&flags.script_run()?),
        Ok(Tool::Matrix(flags)) => flags.run(),
        Ok(Tool::SafeTps(flags)) => flags.run(),
        Ok(Tool::Modes(flags)) => flags.run(),
        Ok(Tool::Queues(flags)) => flags.run(),
        Ok(Tool::Backlog(flags)) => flags.run(),
        Ok(Tool::Soak(flags)) => flags.run(),
        Ok(Tool::Failover(flags)) => flags.run(),
        Ok(Tool::Seed(flags)) => flags.run(),
        Ok(Tool::Clean(flags)) => flags.run(),
        Ok(Tool::Selftest(flags)) => flags.run(),
        Ok(Tool::Agent(flags)) => flags.run(),
        Ok(Tool::Echo(flags)) => flags.run(),
        Ok(Tool::Report(options)) => crate::export::run(&options),
        Ok(Tool::Compare(options)) => crate::compare::run(&options),
        Ok(Tool::Plan(options)) => crate::plan::run(&options),
        Err(text) if !text.use_stderr() => {
            say!("{}", translate(text.to_string().trim_end()));
            Ok(())
        }
        Err(text) => Err(Error::Usage(translate(&text.to_string()))),
    }
}
