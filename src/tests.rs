//! The command line as a whole: it is consistent, and manual pages and completions are made from it.

use super::*;
use clap::CommandFactory;
use std::fs;
use std::path::Path;

/// Names the directory into which manual pages and completions are written; packages are made with it.
const DIRECTORY: &str = "VOSTOK_MANUAL";

#[test]
fn manual_pages_and_completions_are_made_from_the_command_line() {
    let unasked = tempfile::tempdir().unwrap();
    let asked = std::env::var_os(DIRECTORY).map(PathBuf::from);
    let directory = asked.as_deref().unwrap_or(unasked.path());
    let mut command = Arguments::command();
    command.build();
    manual(&command, directory);
    use admin::Shell::{Bash, Fish, Zsh};
    for (shell, name) in [(Bash, "vostok"), (Zsh, "_vostok"), (Fish, "vostok.fish")] {
        fs::write(directory.join(name), admin::completion_script(shell)).unwrap();
    }
    let page = fs::read_to_string(directory.join("vostok-serve.1")).unwrap();
    assert!(page.contains("console") && page.contains("SH OPTIONS"), "{page}");
}

/// A page for the program and for each of its commands, but not for the operations of `vostok admin`, which `--help` lists.
fn manual(command: &clap::Command, directory: &Path) {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let page = clap_mangen::Man::new(command.clone());
    let mut out = Vec::new();
    page.render(&mut out).unwrap();
    fs::write(directory.join(format!("{name}.1")), out).unwrap();
    let below = command.get_subcommands().filter(|it| it.get_name() != "help" && !it.is_hide_set());
    if name == "vostok" {
        below.for_each(|command| manual(command, directory));
    }
}
