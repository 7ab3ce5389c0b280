//! The page `docs/admin.md`, made from the table of operations.

use crate::table::operations;
use crate::{Effect, Kind, Operation};
use std::fmt::Write as _;

const INTRODUCTION: &str = "# Operate a cluster

[简体中文](admin.zh-CN.md)

`vostok admin NOUN VERB` looks at a cluster and changes it; `vostok mqadmin NAME` does the same with the names, flags and texts of Apache
RocketMQ's `mqadmin`. Both work with clusters of Vostok and of RocketMQ 4.x and 5.x, and start in milliseconds.

```
vostok admin cluster list -n 127.0.0.1:9876
vostok admin topic create orders --type FIFO --read-queues 16 --write-queues 16
vostok admin group progress payments -o json
vostok admin topic delete orders --dry-run
vostok mqadmin topicRoute -n 127.0.0.1:9876 -t orders
```

- `-n` names the name servers; otherwise the environment's `NAMESRV_ADDR`, otherwise 127.0.0.1:9876.
- `-o table|json|yaml|csv` chooses the form of the answer. Names of members are the same in all of them; times are in UTC, and
  given ones too when they end with `Z`, otherwise local.
- `--watch SECONDS` looks again after each pause; `-i SECONDS` of `vostok mqadmin` does where `mqadmin` has it.
- `--dry-run` prints the requests that would change something, and sends only those that read.
- `--contains`, `--after`, `--limit` and `--sort` show a page of `topic list` and `group names`; brokers of Vostok then tell queues, messages, members and
  lag as well, of others the names alone are known. `--sort lag` also shows the lag in time. The order of
  `--sort messages` learns of topics that grow within ten seconds on a broker with 100,000 topics or more; the numbers are the present ones.
- `lag_seconds` is the age of the first message that the group has not consumed. With `lag_is_bound` the age may be smaller: an SQL92 filter may
  exclude messages, and brokers of RocketMQ only report the store time of the last consumed message. The field is empty for groups that consume by broadcast.
- What cannot be undone asks before, or wants `--yes`. `vostok mqadmin` does not ask, as `mqadmin` does not.
- Requests are signed with `accessKey` and `secretKey` of `--credentials FILE`, otherwise of `conf/tools.yml` below `ROCKETMQ_HOME`.
- A broker is named by its address, or by its broker set, whose master is meant. An operation that names neither broker nor cluster
  is for the only cluster; where there are several, it fails and names the clusters.
- Exit code 0 when all was done, 1 when a server refused or did not answer, 2 for wrong arguments (of `vostok mqadmin`: 1).
  Answers of several brokers (messages, queues of a topic, groups, users, acls, settings and figures of brokers, exports) are printed or written
  if at least one broker answers; standard error then lists the missing parts.

`vostok completion bash|zsh|fish` prints a script that lets the shell complete commands, options, and the names of topics, groups, brokers and
clusters: `source <(vostok completion bash)`.

A symbolic link named `mqadmin` to the binary makes it `mqadmin` itself. Times are local as there (`TZ`, `/etc/localtime`). Its differences: a failed command prints no stack
trace and ends with exit code 1. All 96 names of `mqadmin` 5.5.0 are there: what a server does not serve is asked, and its refusal printed. Files of
RocksDB are not read, and the queues of a static topic are not moved.

## Live figures

```
vostok top -n 127.0.0.1:9876
vostok top --once -o json
```

`vostok top` shows brokers, topics, groups, queues and clients in a terminal of at least 80x24, with rates and lag in messages and seconds. `?` lists the
keys: `1` to `5` choose the screen, `/` shows only rows with a text, `<` `>` and `r` sort, Enter shows the queues of a topic or group, `:` takes a command.
It looks once a second, or less often where a look takes longer, with RocketMQ's own requests and never one for each row: two for each broker, two for the
name server, and a few topics without groups and members of a few groups in turn; what was not asked yet is shown as a dash. `--once` prints the figures of
one second and ends; what groups consume is then known only by what they committed in it.

## Operations

Effect: *look* only reads, *change* can be changed back, *destroy* cannot.

| operation | mqadmin | effect | what it does |
|---|---|---|---|
";

/// Writes the page.
#[must_use]
pub fn page() -> String {
    let mut out = INTRODUCTION.to_owned();
    for operation in operations() {
        let names: Vec<_> = operation.mqadmin.iter().map(|name| format!("`{name}`")).collect();
        let effect = match operation.effect {
            Effect::Look => "look",
            Effect::Change => "change",
            Effect::Destroy => "destroy",
        };
        let (names, about) = (names.join(", "), operation.about);
        let _ = writeln!(out, "| `{}` | {names} | {effect} | {about} |", synopsis(operation));
    }
    out
}

/// An operation with its arguments, as it is typed.
fn synopsis(operation: &Operation) -> String {
    let mut words = vec![format!("{} {}", operation.noun, operation.verb)];
    words.extend(operation.arguments.iter().map(|argument| match argument.kind {
        Kind::Place => format!("<{}>", argument.name),
        Kind::Required => format!("--{} VALUE", argument.name),
        Kind::Optional => format!("[--{} VALUE]", argument.name),
        Kind::Switch => format!("[--{}]", argument.name),
    }));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To write the page after a change of the table, run with `VOSTOK_WRITE_DOCS=1`.
    #[test]
    fn the_page_in_docs_is_made_from_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/admin.md");
        if std::env::var_os("VOSTOK_WRITE_DOCS").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == page(), "docs/admin.md is not what the table says; run with VOSTOK_WRITE_DOCS=1");
    }

    #[test]
    fn the_translated_page_has_every_operation() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/admin.zh-CN.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        for operation in operations() {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", synopsis(operation))));
            let row = row.unwrap_or_else(|| panic!("docs/admin.zh-CN.md lacks {}", synopsis(operation)));
            assert!(operation.mqadmin.iter().all(|name| row.contains(&format!("`{name}`"))), "{row}");
        }
    }
}
