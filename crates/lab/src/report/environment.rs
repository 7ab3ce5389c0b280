//! Chapters 2 and 11: the tested cluster and its machines, and the command that repeats the run.

use super::defaults::{Changed, UNKNOWN, changed, release};
use super::words::{moment, words};
use crate::archive::{BrokerFile, HostFile, Roofline, RunFile, SECRET};
use crate::judge::{Text, both, numbers};
use maud::{Markup, html};

/// Script that copies the text before the button. It works also in a page opened from a file, which may not use the
/// clipboard API.
const COPY: &str =
    "getSelection().selectAllChildren(this.previousElementSibling);document.execCommand('copy')";

/// Chapter 2. `place` is the relative link from the page to the run's directory: empty, or ending in a slash.
pub fn environment(file: &RunFile, place: &str) -> Markup {
    html! {
        table {
            tr { th { (words("target", "被测集群")) } th { (words("version", "版本")) } th { (words("name servers", "NameServer")) } th { (words("brokers", "Broker")) } }
            tr { td { (file.target.name) } td { (file.target.version) } td { (file.target.namesrv) }
                td { @for broker in &file.target.brokers { (broker.name) " #" (broker.id) " " (broker.address) br; } } }
        }
        (machines(&file.hosts))
        (rooflines(&file.hosts))
        (settings(file))
        p.from { (link(place, "run.json")) }
    }
}

fn machines(hosts: &[HostFile]) -> Markup {
    html! {
        table {
            tr { th { (words("machine", "主机")) } th { "CPU" } th { (words("cores", "核")) } th { (words("memory", "内存")) } th { (words("kernel", "内核")) }
                th { (words("disk", "磁盘")) } th { (words("network", "网卡")) } }
            @for host in hosts {
                tr { td { (host.name) } td { (host.cpu_model) }
                    td { (host.cores) @if let Some(allowed) = host.cores_allowed { " (" (words("quota", "配额")) " " (numbers::short(allowed)) ")" } }
                    td { (numbers::bytes(host.memory_bytes as f64)) } td { (host.kernel) }
                    td { (disk(host)) }
                    td { @for (name, speed) in &host.nics { (name) " " @match speed { Some(megabits) => { (megabits) " Mb/s" } None => { "?" } } br; } } }
            }
        }
    }
}

/// Device, file system and kind of a host's disk.
pub fn disk(host: &HostFile) -> String {
    let kind = match host.disk_spins() {
        Some(true) => " HDD",
        Some(false) => " SSD",
        None => "",
    };
    format!("{} {}{kind}", host.disk, host.filesystem).trim().to_owned()
}

fn rooflines(hosts: &[HostFile]) -> Markup {
    let known: Vec<(&str, &Roofline)> =
        hosts.iter().filter_map(|host| Some((host.name.as_str(), host.roofline.as_ref()?))).collect();
    if known.is_empty() {
        return html! { p.none { (words("no self-test: run vostok lab selftest to see how far from the machine's limits this was",
        "没有自测数据：运行 vostok lab selftest 可得到硬件上限")) } };
    }
    // A figure of 0 means not measured.
    let known_or = |value: f64, text: String| if value > 0.0 { text } else { "–".to_owned() };
    let rate = |bytes: f64| known_or(bytes, numbers::bytes(bytes) + "/s");
    html! {
        table {
            caption { (words("What the machine alone can do (self-test)", "硬件上限（自测）")) }
            tr { th { (words("machine", "主机")) } th { (words("disk write", "磁盘写")) } th { (words("disk read", "磁盘读")) } th { (words("flushes", "flush")) }
                th { (words("idle write", "空闲写时延")) } th { (words("scattered writes", "随机写")) } th { (words("loopback", "本机回环")) } th { (words("round trips", "往返")) }
                th { (words("lab, one core", "压测端单核")) } th { "CRC32" } }
            @for (name, limit) in known {
                tr { td { (name) } td { (rate(limit.disk_write_bytes)) } td { (rate(limit.disk_read_bytes)) }
                    td { (known_or(limit.disk_flushes, numbers::count(limit.disk_flushes) + "/s")) }
                    td { (known_or(limit.disk_write_await_ms, numbers::short(limit.disk_write_await_ms) + " ms")) }
                    td { (known_or(limit.disk_random_writes, numbers::count(limit.disk_random_writes) + " IOPS")) }
                    td { (rate(limit.net_bytes)) } td { (numbers::count(limit.net_round_trips)) "/s" }
                    td { (numbers::rate(limit.lab_messages)) } td { (numbers::bytes(limit.cpu_crc_bytes)) "/s" } }
            }
        }
    }
}

/// The settings of brokers that differ from the defaults, and all settings in a folded section.
fn settings(file: &RunFile) -> Markup {
    let release = release(file);
    html! {
        @for broker in file.target.brokers.iter().filter(|broker| !broker.settings.is_empty()) {
            @let found = changed(file, broker);
            @if found.is_empty() {
                p { (broker.name) " #" (broker.id) ": " (words("settings are the defaults of ", "配置均为默认值，")) (release) }
            } @else {
                p { b { (broker.name) " #" (broker.id) ": " (words("settings that are not the defaults of ", "与默认值不同的配置，默认值取自 ")) (release) } }
                table {
                    tr { th { (words("setting", "配置项")) } th { (words("value", "值")) } th { (words("default", "默认值")) } }
                    @for setting in &found {
                        tr { td { code { (setting.key) } } td { code { (setting.value) } }
                            td { @match setting.default.as_deref() { Some(UNKNOWN) => (words("depends on the machine", "取决于主机")), Some(default) => code { (default) }, None => "–" } } }
                    }
                }
            }
            details {
                summary { (words("all settings of", "全部配置：")) " " (broker.name) " #" (broker.id) " (" (broker.settings.len()) ")" }
                // Lines instead of a table, which would take a third of a page with three brokers.
                pre { @for (key, value) in &broker.settings { (key) "=" (value) "\n" } }
            }
        }
    }
}

/// The settings that differ from the defaults, for Markdown: a line for each broker that reported its settings.
pub fn settings_lines(file: &RunFile) -> Vec<Text> {
    let release = release(file);
    let shown = file.target.brokers.iter().filter(|broker| !broker.settings.is_empty());
    let line = |broker: &BrokerFile| {
        let name = format!("{} #{}", broker.name, broker.id);
        let found = changed(file, broker);
        if found.is_empty() {
            return both!("environment.name-settings-defaults-release", name, release);
        }
        let list = |of_machine: &str| {
            let setting_text = |setting: &Changed<'_>| match setting.default.as_deref() {
                Some(UNKNOWN) => format!("{}={}{of_machine}", setting.key, setting.value),
                _ => format!("{}={}", setting.key, setting.value),
            };
            found.iter().map(setting_text).collect::<Vec<_>>().join(", ")
        };
        let (en, zh) = (list(" (its default depends on the machine)"), list("（默认值取决于主机）"));
        both!("environment.name-not-defaults-release", name, release, en, zh)
    };
    shown.map(line).collect()
}

/// A link to a file of the run.
fn link(place: &str, file: &str) -> Markup {
    html! { a href={ (place) (file) } { (place) (file) } }
}

/// Chapter 11: the origin of the figures; `place` is as for [`environment`].
pub fn origin(file: &RunFile, place: &str) -> Markup {
    html! {
        p { (words("Reproduce with:", "复现命令：")) }
        pre { (command_line(file)) }
        button type="button" onclick=(COPY) { (words("Copy", "复制")) }
        @if let Some(Text { en, zh }) = secret_left_out(file) { p { (words(&en, &zh)) } }
        table {
            tr { th { (words("lab", "压测工具")) } td { "vostok " (file.lab_version) } }
            tr { th { (words("seed", "随机种子")) } td { (file.seed) } }
            tr { th { (words("began", "开始")) } td { (moment(file.started_ms)) } }
            tr { th { (words("ended", "结束")) } td { @match file.ended_ms { Some(ended) => (moment(ended)), None => (words("not finished", "未完成")) } } }
            tr { th { (words("data", "数据文件")) } td {
                @for name in ["run.json", "report.json", "cells.csv", "report.md"] { (link(place, name)) " " }
                (place) "cells/*/*/{load,host-*,broker-*,events}.csv, latency.hlog" } }
        }
    }
}

/// The note that the secret key must be added to the command, because no run keeps one; `None` without a secret.
pub fn secret_left_out(file: &RunFile) -> Option<Text> {
    let is_place = |word: &String| word.rsplit('=').next() == Some(SECRET);
    file.command_line.iter().any(is_place).then(|| both!("environment.secret-stands-secret-key", SECRET))
}

/// The command line as it was typed, quoted for a shell.
pub fn command_line(file: &RunFile) -> String {
    let quote = |word: &String| {
        let plain = |letter: char| letter.is_alphanumeric() || "-_./:,=@%+".contains(letter);
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    file.command_line.iter().map(quote).collect::<Vec<_>>().join(" ")
}
