//! Verdicts as text for people and as JSON for programs.

use super::bundle::Bundle;
use super::finding::{Finding, Severity, State, Verdict};
use super::health::Health;
use crate::text::time;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Findings, the gravest first.
fn findings(verdicts: &[Verdict]) -> Vec<&Finding> {
    let mut all: Vec<_> = verdicts.iter().flat_map(|verdict| &verdict.findings).collect();
    // The sort is stable, so that the order of the table holds within a severity.
    all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    all
}

fn count(verdicts: &[Verdict], state: State) -> usize {
    verdicts.iter().filter(|verdict| verdict.state == state).count()
}

/// The verdicts as data.
pub(super) fn value(bundle: &Bundle, verdicts: &[Verdict]) -> Value {
    json!({
        "health": Health::of(verdicts, bundle.taken_at_ms),
        "taken_at": time(bundle.taken_at_ms),
        "brokers": bundle.brokers.len(),
        "topics": bundle.topics.len(),
        "topics_left_out": bundle.topics_left_out,
        "groups": bundle.groups.len(),
        "findings": findings(verdicts),
        "checks": verdicts
            .iter()
            .map(|verdict| json!({"code": verdict.code, "state": verdict.state, "looked": verdict.looked, "needs": verdict.needs}))
            .collect::<Vec<_>>(),
    })
}

/// The verdicts for people. What passed is only counted; what was skipped is named with what it needs.
pub(super) fn text(bundle: &Bundle, verdicts: &[Verdict]) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "Health: {}", Health::of(verdicts, bundle.taken_at_ms));
    let _ = writeln!(
        out,
        "{} brokers, {} topics, {} groups, gathered at {}",
        bundle.brokers.len(),
        bundle.topics.len(),
        bundle.groups.len(),
        time(bundle.taken_at_ms)
    );
    if bundle.topics_left_out > 0 {
        let _ = writeln!(
            out,
            "{} further topics were not looked at; follow one with: vostok doctor queue TOPIC/QUEUE -g GROUP",
            bundle.topics_left_out
        );
    }
    for finding in findings(verdicts) {
        let Finding { code, severity, subject, figure, source, fix, .. } = finding;
        let severity = severity.name().to_uppercase();
        let _ = writeln!(
            out,
            "\n{severity:<8} {code}  {subject}\n         {figure}\n         from: {source}\n         fix:  {fix}"
        );
    }
    let skipped: Vec<_> = verdicts.iter().filter(|verdict| verdict.state == State::Skip).collect();
    if !skipped.is_empty() {
        let width = skipped.iter().map(|verdict| verdict.code.len()).max().unwrap_or_default();
        let _ = writeln!(out, "\nSkipped for want of data:");
        for verdict in skipped {
            let _ = writeln!(out, "  {:<width$}  needs {}", verdict.code, verdict.needs);
        }
    }
    let grave = findings(verdicts).iter().filter(|finding| finding.severity == Severity::Critical).count();
    let _ = writeln!(
        out,
        "\n{} findings ({grave} critical) of {} checks; {} passed, {} skipped",
        findings(verdicts).len(),
        verdicts.len(),
        count(verdicts, State::Pass),
        count(verdicts, State::Skip)
    );
    out
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
        let verdicts = judge(&bundle, checks::all());
        let text = text(&bundle, &verdicts);
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word} in {text}"));
        assert!(at("client-ids-equal") < at("broker-permission"), "{text}");
        assert!(at("Skipped") < at("huge-pages-always"), "{text}");
        let value = value(&bundle, &verdicts);
        assert_eq!(value["findings"][0]["severity"], "critical");
        assert!(value["checks"].as_array().unwrap().iter().any(|check| check["state"] == "SKIP"));
    }
}
