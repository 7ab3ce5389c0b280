//! The command line as a whole: it is consistent, and manual pages and completions are made from it.

use super::*;
use clap::CommandFactory;
use clap_complete::Shell;
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
    for (shell, name) in [(Shell::Bash, "vostok"), (Shell::Zsh, "_vostok"), (Shell::Fish, "vostok.fish")] {
        let mut out = Vec::new();
        clap_complete::generate(shell, &mut command.clone(), "vostok", &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("serve") && text.contains("doctor"), "{name}");
        fs::write(directory.join(name), text).unwrap();
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
