//! `report.md`: the verdict, the table and links, for chats and repositories.

use super::{cases, columns, curves, environment, latency, matrix, verdict};
use crate::judge::conclusion::Conclusion;
use crate::judge::{Language, Text, both, numbers};
use crate::sentences::Sentence;
use std::fmt::Write as _;

/// The report as Markdown in one language.
pub fn markdown(run: &Conclusion<'_>, language: Language) -> String {
    let file = &run.record.file;
    let ended =
        file.ended_ms.map_or_else(|| both!("markdown.not-finished"), |ms| Text::same(numbers::utc(ms)));
    let (began, ended) = (numbers::utc(file.started_ms), ended.get(language));
    let mut text =
        format!("# {}\n\n{} · {began} – {ended}\n\n", plain(&super::html::title(file)), plain(&file.id));
    let heading = |text: &mut String, name: Text| {
        let _ = writeln!(text, "\n## {}\n", name.get(language));
    };
    heading(&mut text, both!("markdown.verdict"));
    for (name, says) in verdict::lines(run) {
        let _ = writeln!(text, "- **{}**: {}", name.get(language), says.get(language));
    }
    heading(&mut text, both!("markdown.environment"));
    for host in &file.hosts {
        let (memory, disk) = (numbers::bytes(host.memory_bytes as f64), environment::disk(host));
        let _ = writeln!(
            text,
            "- {}: {} × {}, {memory}, {disk}, Linux {}",
            plain(&host.name),
            host.cores,
            plain(&host.cpu_model),
            plain(&host.kernel)
        );
    }
    for says in environment::settings_lines(file) {
        let _ = writeln!(text, "- {}", plain(says.get(language)));
    }
    heading(&mut text, both!("page.cells"));
    let table = columns::rows_without_probes(run, language);
    let names = cases::names(&table);
    rows(&mut text, &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    rows(&mut text, &names.iter().map(|_| "---".to_owned()).collect::<Vec<_>>());
    for row in table {
        rows(&mut text, &names.iter().map(|name| row[cases::place(name)].clone()).collect::<Vec<_>>());
    }
    let probes = run.cells.iter().filter(|case| case.is_probe()).count();
    if probes > 0 {
        let _ = writeln!(text, "\n{} ([cells.csv](cells.csv))", cases::probes_text(probes).get(language));
    }
    if let Some(says) = matrix::left_out_says(file) {
        let _ = writeln!(text, "\n{}", says.get(language));
    }
    let closed = latency::omission(run);
    if !closed.is_empty() {
        let _ = writeln!(text, "\n{}\n", latency::omission_says().get(language));
    }
    for says in closed {
        let _ = writeln!(text, "- {}", says.get(language));
    }
    heading(&mut text, both!("markdown.what-each-factor-does"));
    let effects = run.effects.iter().map(Sentence::sentence);
    for says in effects.chain(run.interactions.iter().map(Sentence::sentence)) {
        let _ = writeln!(text, "- {}", says.get(language));
    }
    if let Some(found) = &run.sensitive {
        heading(&mut text, both!("markdown.settings-do-something"));
        let nothing = found.is_empty().then(curves::insensitive);
        for says in found.iter().map(Sentence::sentence).chain(nothing) {
            let _ = writeln!(text, "- {}", says.get(language));
        }
    }
    heading(&mut text, both!("markdown.origin"));
    let _ = writeln!(
        text,
        "```\n{}\n```\n\nvostok {}, seed {}, [run.json](run.json), [cells.csv](cells.csv), [report.html](report.html)",
        // Backquotes in the command would end the code block.
        environment::command_line(file).replace("```", "` ` `"),
        file.lab_version,
        file.seed
    );
    if let Some(says) = environment::secret_left_out(file) {
        let _ = writeln!(text, "\n{}", says.get(language));
    }
    text
}

/// Escapes what Markdown and HTML would interpret in a name.
fn plain(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '\n' | '\r' => text.push(' '),
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            letter => {
                if "\\`*_[]#|~!".contains(letter) {
                    text.push('\\');
                }
                text.push(letter);
            }
        }
    }
    text
}

fn rows(text: &mut String, values: &[String]) {
    let escaped: Vec<String> = values.iter().map(|value| value.replace('|', "\\|")).collect();
    let _ = writeln!(text, "| {} |", escaped.join(" | "));
}
