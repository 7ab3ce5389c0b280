//! Verdicts as text for people and as JSON for programs.

use super::bilingual::{Text, text};
use super::bundle::Bundle;
use super::causes::arrange;
use super::finding::{Finding, State, Verdict};
use super::health::Health;
use crate::Lang;
use crate::text::time;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Consequences of one cause that the text lists.
const CONSEQUENCES_MAX: usize = 10;

/// The doctor's verdict on a cluster.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    /// Health in one word, with the numbers of causes.
    pub health: Health,
    /// Findings, the gravest cause first, each followed by its consequences.
    pub findings: Vec<Finding>,
    /// Verdict of each check.
    pub checks: Vec<Verdict>,
    /// Number of brokers.
    pub brokers: usize,
    /// Number of topics that were looked at.
    pub topics: usize,
    /// Number of topics that were not looked at.
    pub topics_left_out: usize,
    /// Number of consumer groups.
    pub groups: usize,
    /// Whether groups and most topics were left out.
    pub is_brief: bool,
}

impl Diagnosis {
    /// Puts the findings of verdicts together by cause.
    pub(super) fn of(bundle: &Bundle, mut checks: Vec<Verdict>) -> Self {
        let findings = arrange(checks.iter_mut().flat_map(|it| std::mem::take(&mut it.findings)).collect());
        Self {
            health: Health::of(&findings, &checks, bundle.taken_at_ms),
            findings,
            checks,
            brokers: bundle.brokers.len(),
            topics: bundle.topics.len(),
            topics_left_out: bundle.topics_left_out,
            groups: bundle.groups.len(),
            is_brief: false,
        }
    }

    /// Number of checks with this state.
    pub fn count(&self, state: State) -> usize {
        self.checks.iter().filter(|check| check.state == state).count()
    }

    /// Findings that no other finding causes.
    pub fn causes(&self) -> impl Iterator<Item = (usize, &Finding)> {
        self.findings.iter().enumerate().filter(|(_, finding)| finding.cause.is_none())
    }

    /// Findings that the finding at this place causes.
    pub fn consequences(&self, cause: usize) -> impl Iterator<Item = &Finding> {
        self.findings[cause + 1..].iter().take_while(move |finding| finding.cause == Some(cause))
    }

    /// The verdict as data, with texts in a language.
    pub fn value(&self, lang: Lang) -> Value {
        let check = |check: &Verdict| {
            let (state, looked, needs) = (check.state, check.looked, check.needs.of(lang));
            json!({"code": check.code, "state": state, "looked": looked, "needs": needs})
        };
        json!({
            "health": self.health,
            "taken_at": time(self.health.taken_at_ms),
            "brokers": self.brokers,
            "topics": self.topics,
            "topics_left_out": self.topics_left_out,
            "brief": self.is_brief,
            "groups": self.groups,
            "findings": self.findings.iter().map(|finding| finding.value(lang)).collect::<Vec<_>>(),
            "checks": self.checks.iter().map(check).collect::<Vec<_>>(),
        })
    }

    /// The verdict for people. Passed checks are only counted. Skipped checks are named with the data that they lack.
    pub(super) fn text(&self, lang: Lang) -> String {
        let mut out = String::new();
        let mut line = |words: Text| {
            let _ = writeln!(out, "{}", words.of(lang));
        };
        line(text!("Health: {health}", health = self.health.words(lang)));
        let (Self { brokers, topics, groups, .. }, at) = (self, time(self.health.taken_at_ms));
        line(text!(
            "{brokers} brokers, {topics} topics, {groups} groups, gathered at {at}",
            brokers,
            topics,
            groups,
            at
        ));
        if self.topics_left_out > 0 {
            line(text!(
                "{left_out} further topics were not looked at; follow one with: vostok doctor queue TOPIC/QUEUE -g GROUP",
                left_out = self.topics_left_out
            ));
        }
        for (at, finding) in self.causes() {
            write_finding(&mut out, finding, lang);
            self.write_consequences(&mut out, at, lang);
        }
        self.write_counts(&mut out, lang);
        out
    }

    fn write_consequences(&self, out: &mut String, cause: usize, lang: Lang) {
        let count = self.consequences(cause).count();
        if count == 0 {
            return;
        }
        let _ = writeln!(out, "         {}", lang.pick("consequences:", "由此引起："));
        for Finding { code, severity, subject, figure, .. } in self.consequences(cause).take(CONSEQUENCES_MAX)
        {
            let severity = severity.word(lang);
            let (subject, figure) = (subject.of(lang), figure.of(lang));
            let colon = lang.pick(": ", "：");
            let _ = writeln!(out, "           {severity} {code}  {subject}{colon}{figure}");
        }
        if let Some(more @ 1..) = count.checked_sub(CONSEQUENCES_MAX) {
            let words = text!("and {more} more (-o json lists all)", more);
            let _ = writeln!(out, "           {}", words.of(lang));
        }
    }

    fn write_counts(&self, out: &mut String, lang: Lang) {
        let skipped: Vec<_> = self.checks.iter().filter(|check| check.state == State::Skip).collect();
        if !skipped.is_empty() {
            let width = skipped.iter().map(|check| check.code.len()).max().unwrap_or_default();
            let _ = writeln!(out, "\n{}", lang.pick("Skipped for want of data:", "因缺少数据而跳过："));
            for check in &skipped {
                let (needs, word) = (check.needs.of(lang), lang.pick("needs", "需要"));
                let _ = writeln!(out, "  {:<width$}  {word} {needs}", check.code);
            }
        }
        let causes = self.causes().count();
        let words = text!(
            "{causes} findings ({grave} critical) with {consequences} consequences of {checks} checks; {passed} passed, {skipped} skipped",
            causes,
            grave = self.health.critical,
            consequences = self.findings.len() - causes,
            checks = self.checks.len(),
            passed = self.count(State::Pass),
            skipped = skipped.len()
        );
        let _ = writeln!(out, "\n{}", words.of(lang));
    }
}

fn write_finding(out: &mut String, finding: &Finding, lang: Lang) {
    let severity = match lang {
        Lang::En => finding.severity.name().to_uppercase(),
        Lang::Zh => finding.severity.word(lang).to_owned(),
    };
    let Finding { code, title, subject, figure, source, advice, .. } = finding;
    let _ = writeln!(out, "\n{severity:<8} {code}  {}", subject.of(lang));
    let mut line = |name: &str, words: &str| {
        if !words.is_empty() {
            let _ = writeln!(out, "         {name}{words}");
        }
    };
    line("", title.of(lang));
    line("", figure.of(lang));
    line(lang.pick("from: ", "来源："), source.of(lang));
    line(lang.pick("fix:  ", "处理："), advice.of(lang));
    if let Some(fix) = &finding.fix {
        line(lang.pick("run:  ", "运行："), &fix.command());
    }
}

#[cfg(test)]
mod tests {
    use super::super::checks::{self, tests::healthy};
    use super::super::finding::judge;
    use super::*;

    #[test]
    fn the_gravest_finding_comes_first_and_skips_are_named() {
        let mut bundle = healthy();
        bundle.groups[0].connections[0].client_id = bundle.groups[0].connections[1].client_id.clone();
        bundle.brokers[0].settings.as_mut().unwrap().insert("brokerPermission".into(), "4".into());
        bundle.host = None;
        let diagnosis = Diagnosis::of(&bundle, judge(&bundle, checks::all()));
        let text = diagnosis.text(Lang::En);
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word} in {text}"));
        assert!(at("client-ids-equal") < at("broker-permission"), "{text}");
        assert!(at("Skipped") < at("huge-pages-always"), "{text}");
        let value = diagnosis.value(Lang::En);
        assert_eq!(value["findings"][0]["severity"], "critical");
        assert!(value["checks"].as_array().unwrap().iter().any(|check| check["state"] == "SKIP"));
    }

    #[test]
    fn a_cause_is_shown_with_its_consequences_in_both_languages() {
        let mut bundle = healthy();
        bundle.replica_sets[0].members[1].is_alive = false;
        bundle.brokers[0].replication.as_mut().unwrap().in_sync = 0;
        bundle.brokers[0].settings.as_mut().unwrap().insert("minInSyncReplicas".into(), "2".into());
        let diagnosis = Diagnosis::of(&bundle, judge(&bundle, checks::all()));
        let english = diagnosis.text(Lang::En);
        assert!(english.starts_with("Health: critical: 1 critical\n"), "{english}");
        let expected = "         consequences:\n           critical too-few-in-sync  broker-a (id 0, 10.0.0.1:10911): 1 in sync";
        assert!(english.contains(expected), "{english}");
        let chinese = diagnosis.text(Lang::Zh);
        let expected = "         由此引起：\n           严重 too-few-in-sync  broker-a (id 0, 10.0.0.1:10911)：包括主节点";
        assert!(chinese.contains(expected), "{chinese}");
        let value = diagnosis.value(Lang::En);
        let run = "vostok admin replica in-sync --controller 10.0.0.5:9878 --broker broker-a";
        assert_eq!(value["findings"][0]["fix"]["command"], run);
        assert_eq!((&value["findings"][1]["cause"], &value["health"]["critical"]), (&json!(0), &json!(1)));
    }
}
