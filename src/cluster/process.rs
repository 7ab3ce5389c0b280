//! A member of a local cluster as a process of its own.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use wire::body::format_key_values;

use super::members::Member;
use crate::roles::Error;

/// A member's process, running or ended.
pub struct Process {
    pub member: Member,
    /// The member's data.
    pub data: PathBuf,
    /// File with everything that the process prints, output of earlier starts included.
    pub log: PathBuf,
    child: Child,
    has_ended: bool,
}

impl Process {
    /// Writes the member's settings to `NAME.conf` in the directory of the cluster and starts it with these further arguments,
    /// by the words of `launcher` if there are any. The member's output goes to `NAME.log` there.
    ///
    /// # Errors
    /// A file cannot be written, or the program cannot be started.
    pub fn start(
        member: Member,
        home: &Path,
        (launcher, arguments): (&[String], &[OsString]),
    ) -> Result<Self, Error> {
        let name = &member.name;
        let failed =
            |error: std::io::Error| Error::new(format!("the member {name} cannot be started"), error);
        let (data, conf) = (home.join(name), home.join(format!("{name}.conf")));
        let log = home.join(format!("{name}.log"));
        std::fs::create_dir_all(&data).map_err(failed)?;
        write_settings(&conf, &member).map_err(failed)?;
        let output = File::options().create(true).append(true).open(&log).map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        let mut words: Vec<OsString> = launcher.iter().map(OsString::from).collect();
        words.push(std::env::current_exe().map_err(failed)?.into());
        let child = Command::new(&words[0])
            .args(&words[1..])
            .args([
                "serve",
                // The log holds what a member prints, and logs are English.
                "--lang",
                "en",
                "--roles",
                member.roles,
                "--stop-with-parent",
                &std::process::id().to_string(),
                "--data",
            ])
            .arg(&data)
            .arg("-c")
            .arg(&conf)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            // A terminal's interrupt reaches the parent alone, which stops the members in their order.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        Ok(Self { member, data, log, child, has_ended: false })
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process runs, as far as was noticed.
    pub fn is_running(&self) -> bool {
        !self.has_ended
    }

    /// Returns the exit status at the first call after the process has ended; `None` before and afterwards.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.has_ended {
            return None;
        }
        // An error would mean that other code has waited for the process, so it has ended, too.
        let status = self.child.try_wait().unwrap_or(Some(ExitStatus::default()));
        self.has_ended = status.is_some();
        status
    }

    /// The last line of the log, empty when there is none.
    pub fn last_words(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
    }

    /// Asks the process to stop cleanly; it may have ended meanwhile.
    pub fn terminate(&self) {
        if self.is_running() {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
    }

    /// Ends the process at once; it may have ended meanwhile.
    pub fn kill(&mut self) {
        if self.is_running() {
            let _ = self.child.kill();
        }
    }
}

fn write_settings(conf: &Path, member: &Member) -> std::io::Result<()> {
    let mut file = File::create(conf)?;
    writeln!(
        file,
        "# Made by `vostok serve --cluster` at each start: change the file that is given to it instead."
    )?;
    file.write_all(format_key_values(&member.settings).as_bytes())
}
