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
    let chinese = directory.join("zh_CN");
    fs::create_dir_all(&chinese).unwrap();
    for (lang, directory) in [(admin::Lang::En, directory), (admin::Lang::Zh, &*chinese)] {
        let mut command = words::translated(Arguments::command(), lang);
        command.build();
        manual(&command, directory, lang);
    }
    use admin::Shell::{Bash, Fish, Zsh};
    for (shell, name) in [(Bash, "vostok"), (Zsh, "_vostok"), (Fish, "vostok.fish")] {
        fs::write(directory.join(name), admin::completion_script(shell)).unwrap();
    }
    let page = fs::read_to_string(directory.join("vostok-serve.1")).unwrap();
    assert!(page.contains("console") && page.contains("SH OPTIONS"), "{page}");
    for name in ["vostok.1", "vostok-serve.1", "vostok-admin.1", "vostok-store.1"] {
        let page = fs::read_to_string(chinese.join(name)).unwrap();
        assert!(
            page.contains(".SH 名称") && page.contains(".SH 选项") && page.contains("打印帮助"),
            "{page}"
        );
        for english in [".SH OPTIONS", ".SH NAME", "Print help", "[default:", "possible values"] {
            assert!(!page.contains(english), "{name} has {english:?}:\n{page}");
        }
    }
}

/// Headings of manual pages in Chinese.
const HEADINGS: [(&str, &str); 8] = [
    ("NAME", "名称"),
    ("SYNOPSIS", "概要"),
    ("DESCRIPTION", "描述"),
    ("OPTIONS", "选项"),
    ("SUBCOMMANDS", "子命令"),
    ("EXTRA", "补充"),
    ("VERSION", "版本"),
    ("AUTHORS", "作者"),
];

/// A page for the program and for each of its commands, but not for the operations of `vostok admin`, which `--help` lists.
fn manual(command: &clap::Command, directory: &Path, lang: admin::Lang) {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let page = clap_mangen::Man::new(command.clone());
    let mut out = Vec::new();
    page.render(&mut out).unwrap();
    let text = admin::localize_output(&String::from_utf8(out).unwrap(), lang, &[]);
    let heading = |text: String, (english, chinese): &(&str, &str)| {
        text.replace(&format!(".SH {english}\n"), &format!(".SH {}\n", lang.pick(english, chinese)))
    };
    fs::write(directory.join(format!("{name}.1")), HEADINGS.iter().fold(text, heading)).unwrap();
    let below = command.get_subcommands().filter(|it| it.get_name() != "help" && !it.is_hide_set());
    if name == "vostok" {
        below.for_each(|command| manual(command, directory, lang));
    }
}
