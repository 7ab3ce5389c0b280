//! `vostok config list|explain|lint|diff`: the meaning of settings, and faults of a configuration file. Exit code 0:
//! clean or equal; 1: findings or differences; 2: cannot read.

mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use admin::{Format, Lang, Look, render_for};
use broker::{Effect, Finding, Setting, Treatment};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use wire::body::{line_of_key, parse_key_values};
use wire::settings::FileSettings as _;

use crate::roles::Error;
use crate::{security, words};
use search::search;

/// Subcommands of `vostok config`.
#[derive(Subcommand)]
pub enum ConfigCommand {
    /// List the settings of a broker with their defaults.
    List {
        /// Only settings with this text in their names or meanings, or about this subject (retention, durability, delay).
        word: Option<String>,
        #[command(flatten)]
        output: Output,
    },
    /// Say what one setting means, its defaults here and in RocketMQ, and when a change takes effect.
    Explain {
        /// Name of the setting; older names of RocketMQ are known.
        key: String,
        #[command(flatten)]
        output: Output,
    },
    /// Find out what is wrong with a configuration file, before a start does. Exit code 0: clean or notes only, 1: errors or warnings, 2: not readable.
    Lint {
        /// A file like RocketMQ's broker.conf, namesrv.conf or controller.conf.
        file: PathBuf,
        /// The role that the file is for.
        #[arg(long, value_enum, default_value_t = Kind::Broker)]
        role: Kind,
        #[command(flatten)]
        output: Output,
    },
    /// Compare the settings of two brokers or files. Exit code 0: equal, 1: different, 2: one cannot be read.
    Diff {
        /// A file, or a broker's HOST:PORT, of Vostok or Apache RocketMQ.
        first: String,
        /// A file, or a broker's HOST:PORT.
        second: String,
        /// File with accessKey and secretKey, like RocketMQ's tools.yml.
        #[arg(long, value_name = "FILE")]
        credentials: Option<PathBuf>,
        #[command(flatten)]
        output: Output,
    },
}

/// Format of the answer.
#[derive(Args)]
pub struct Output {
    /// Format of the answer.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[arg(skip)]
    lang: Lang,
}

/// The role that a configuration file is for.
#[derive(Clone, Copy, ValueEnum)]
pub enum Kind {
    /// Broker.
    Broker,
    /// Name server.
    Namesrv,
    /// Controller.
    Controller,
}

/// Runs a command. The exit code is that of the module's description.
pub fn run(command: &ConfigCommand, lang: Lang) -> ExitCode {
    let done = match command {
        ConfigCommand::List { word, output } => list(word.as_deref(), &output.in_lang(lang)),
        ConfigCommand::Explain { key, output } => explain(key, &output.in_lang(lang)),
        ConfigCommand::Lint { file, role, output } => lint(file, *role, &output.in_lang(lang)),
        ConfigCommand::Diff { first, second, credentials, output } => {
            diff([first, second], credentials.as_deref(), &output.in_lang(lang))
        }
    };
    done.unwrap_or_else(|error| {
        words::complain(error);
        ExitCode::from(2)
    })
}

impl Output {
    fn in_lang(&self, lang: Lang) -> Self {
        Self { output: self.output, lang }
    }

    /// The language of cells: programs get English in all languages.
    fn cells(&self) -> Lang {
        if self.output == Format::Table { self.lang } else { Lang::En }
    }

    fn print(&self, answer: &impl Serialize) -> Result<(), Error> {
        let value = serde_json::to_value(answer).map_err(|error| Error::new("the answer", error))?;
        // The output may have no reader.
        let look = Look::stdout(self.lang);
        let _ = write!(std::io::stdout(), "{}", render_for(&value, self.output, &look));
        Ok(())
    }
}

/// A setting as it is printed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    setting: &'static str,
    default: String,
    rocketmq: String,
    unit: String,
    takes_effect: String,
    since: String,
    meaning: &'static str,
}

impl Row {
    fn new(setting: &Setting, lang: Lang) -> Self {
        let takes_effect = match setting.treatment {
            Treatment::Served(Effect::Live) => "at once",
            Treatment::Served(_) => "restart",
            Treatment::Refused => "never: other values stop the start",
            Treatment::WithoutEffect => "never: kept without effect",
        };
        let say = |english: &str| words::message(lang, english);
        Self {
            setting: setting.name,
            default: of_the_machine(&setting.default, lang),
            rocketmq: setting
                .java
                .map_or_else(|| say("(no such setting)"), |default| of_the_machine(default, lang)),
            unit: setting.unit().map_or_else(String::new, say),
            takes_effect: say(takes_effect),
            since: say(if setting.java.is_some() { "in RocketMQ 5.5.0" } else { "Vostok 0.1.0" }),
            meaning: lang.pick(setting.text, words::meaning(setting.name).unwrap_or(setting.text)),
        }
    }
}

/// A default as it is printed; `*` stands for a default that depends on the machine.
fn of_the_machine(default: &str, lang: Lang) -> String {
    if default == "*" { words::message(lang, "(by the machine)") } else { default.to_owned() }
}

fn list(word: Option<&str>, output: &Output) -> Result<ExitCode, Error> {
    let rows: Vec<Row> =
        search(word.unwrap_or_default()).iter().map(|it| Row::new(it, output.cells())).collect();
    if let Some(word) = word.filter(|_| rows.is_empty()) {
        words::complain(format!("no setting of a broker is about {word}"));
    }
    output.print(&rows)?;
    Ok(ExitCode::SUCCESS)
}

fn explain(key: &str, output: &Output) -> Result<ExitCode, Error> {
    match broker::setting(key) {
        Ok(setting) => {
            output.print(&Row::new(&setting, output.cells()))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(near) => {
            words::complain(match near {
                None => format!("no setting of a broker has the name {key}"),
                Some(near) => format!("no setting of a broker has the name {key}; did you mean {near}?"),
            });
            Ok(ExitCode::from(1))
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    /// The start refuses the file.
    Error,
    /// The operator should change something.
    Warning,
    /// Neither wrong nor risky: it does not change the exit code.
    Note,
}

#[derive(Debug, Serialize)]
struct Line {
    severity: Severity,
    finding: String,
}

fn line(severity: Severity, finding: impl std::fmt::Display) -> Line {
    Line { severity, finding: finding.to_string() }
}

fn lint(file: &Path, role: Kind, output: &Output) -> Result<ExitCode, Error> {
    let unreadable = |error: &dyn std::fmt::Display| Error::new(file.display(), error);
    let source = std::fs::read(file).map_err(|error| unreadable(&error))?;
    let mode = std::fs::metadata(file).map_err(|error| unreadable(&error))?.permissions().mode();
    let given = parse_key_values(&source).map_err(|error| unreadable(&error))?;
    let mut lines = secrets(&given, mode);
    let text = match security::take(&source) {
        Ok((rest, _)) => rest,
        Err(error) => {
            lines.push(line(Severity::Error, error));
            without_tls(&given)
        }
    };
    match role {
        Kind::Broker => lines.extend(of_broker(&text, &source).map_err(|error| unreadable(&error))?),
        Kind::Namesrv => {
            let split = crate::roles::with_controller(&text, |embeds| embeds);
            let (text, embedded) = split.map_err(|error| unreadable(&error))?;
            lines.extend(embedded.into_iter().flat_map(|text| of_controller(&text, &source)));
            let mut config = namesrv::Config::new(Path::new("."));
            match config.read(&text) {
                Ok(warnings) => lines.extend(warnings.iter().map(|it| line(Severity::Warning, it))),
                Err(error) => lines.push(refusal(&source, error.key(), &error)),
            }
            lines.extend(config.auth.check().err().map(|error| line(Severity::Error, error)));
        }
        Kind::Controller => lines.extend(of_controller(&text, &source)),
    }
    lines.sort_by_key(|line| line.severity);
    lines.iter_mut().for_each(|line| line.finding = words::message(output.cells(), &line.finding));
    output.print(&lines)?;
    Ok(ExitCode::from(u8::from(lines.iter().any(|line| line.severity != Severity::Note))))
}

/// Findings about the settings of a controller.
fn of_controller(text: &[u8], source: &[u8]) -> Vec<Line> {
    let mut config = controller::Config::new(Path::new("."));
    let warnings = match config.read(text) {
        Ok(warnings) => warnings,
        Err(error) => return vec![refusal(source, error.key(), &error)],
    };
    let mut lines: Vec<_> = warnings.iter().map(|it| line(Severity::Warning, it)).collect();
    let group = controller::Group::new(&config.group, &config.peers, &config.self_id);
    lines.extend(group.err().map(|error| refusal(source, Some("controllerDLegerPeers"), &error)));
    lines
}

/// A finding that stops the start, with the line of the setting in the file.
fn refusal(source: &[u8], key: Option<&str>, error: &dyn std::fmt::Display) -> Line {
    match key.and_then(|key| line_of_key(source, key)) {
        Some(number) => line(Severity::Error, format!("line {number}: the start refuses: {error}")),
        None => line(Severity::Error, format!("the start refuses: {error}")),
    }
}

/// The text without the settings of TLS, which are not a role's.
fn without_tls(given: &BTreeMap<String, String>) -> Vec<u8> {
    let is_of_tls = |key: &str| key == "tls.config.file" || net::tls::TlsSettings::NAMES.contains(&key);
    let rest = given.iter().filter(|(key, _)| !is_of_tls(key));
    let rest = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
    wire::body::format_key_values(&rest).into_bytes()
}

/// Bits of a file's mode that let others than its owner read the file.
const READ_BY_OTHERS: u32 = 0o044;

fn secrets(given: &BTreeMap<String, String>, mode: u32) -> Vec<Line> {
    let hidden = admin::without_secrets(given.clone());
    let names = given.iter().filter(|(key, value)| hidden.get(*key) != Some(*value));
    let of_name = |(key, _): (&String, &String)| match hidden[key].as_str() {
        "(set)" if mode & READ_BY_OTHERS == 0 => line(
            Severity::Note,
            format!("setting {key} holds a secret; only the owner of the file may read it"),
        ),
        "(set)" => line(
            Severity::Warning,
            format!(
                "setting {key} holds a secret, and others may read the file (mode {:04o}); chmod 600",
                mode & 0o7777
            ),
        ),
        shown => line(Severity::Warning, format!("setting {key} is {shown}, which everybody knows")),
    };
    names.map(of_name).collect()
}

/// The findings of a broker's settings, which stand in the file `source`.
fn of_broker(text: &[u8], source: &[u8]) -> Result<Vec<Line>, broker::ConfigError> {
    let (refusals, findings) = broker::lint(text)?;
    let mut lines: Vec<Line> = refusals.iter().map(|error| refusal(source, error.key(), error)).collect();
    let severity = |it: &Finding| if it.is_warning() { Severity::Warning } else { Severity::Note };
    lines.extend(findings.iter().map(|it| line(severity(it), it)));
    let given: BTreeSet<String> = parse_key_values(text)?.into_keys().collect();
    let silent = broker::settings().into_iter().filter(|it| it.differs_from_java());
    lines.extend(silent.filter(|it| !given.contains(it.name)).map(|it| {
        let java = it.java.unwrap_or_default();
        let finding =
            format!("setting {} is not in the file: {} here, {java} in RocketMQ", it.name, it.default);
        line(Severity::Note, finding)
    }));
    Ok(lines)
}

#[derive(Serialize)]
struct Difference {
    setting: String,
    first: Option<String>,
    second: Option<String>,
}

fn diff(sources: [&str; 2], credentials: Option<&Path>, output: &Output) -> Result<ExitCode, Error> {
    let [first, second] = sources.map(|source| values(source, credentials));
    let differences = differences(&first?, &second?);
    output.print(&differences)?;
    Ok(ExitCode::from(u8::from(!differences.is_empty())))
}

fn differences(first: &BTreeMap<String, String>, second: &BTreeMap<String, String>) -> Vec<Difference> {
    let names: BTreeSet<&String> = first.keys().chain(second.keys()).collect();
    let changed = names.into_iter().filter(|name| first.get(*name) != second.get(*name));
    let difference = |name: &String| Difference {
        setting: name.clone(),
        first: first.get(name).cloned(),
        second: second.get(name).cloned(),
    };
    changed.map(difference).collect()
}

/// All settings of a file, completed with the defaults of this machine, or of a running broker; without secrets.
fn values(source: &str, credentials: Option<&Path>) -> Result<BTreeMap<String, String>, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::new(source, error);
    let is_address = source.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let values = if is_address && !Path::new(source).exists() {
        admin::settings_of(source, credentials).map_err(|error| failed(&error))?
    } else {
        let text = std::fs::read(source).map_err(|error| failed(&error))?;
        let given = parse_key_values(&text).map_err(|error| failed(&error))?;
        let (config, _) =
            broker::Config::from_properties(&without_tls(&given)).map_err(|error| failed(&error))?;
        parse_key_values(config.to_properties().as_bytes()).map_err(|error| failed(&error))?
    };
    Ok(admin::without_secrets(values))
}

#[cfg(test)]
mod tests;
