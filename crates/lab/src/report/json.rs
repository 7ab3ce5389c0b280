//! `report.json`: every verdict and figure, for programs.

use super::verdict;
use crate::judge::conclusion::{Case, Conclusion};
use serde_json::{Value, json};

/// The report as a JSON document.
pub fn json(run: &Conclusion<'_>) -> Value {
    let verdict: Vec<Value> =
        verdict::lines(run).iter().map(|(name, text)| json!({ "name": name, "text": text })).collect();
    let ladder = |ladder: &crate::judge::conclusion::Ladder| {
        let cells: Vec<&str> =
            ladder.cells.iter().map(|cell| run.cells[*cell].judged.cell.cell.name.as_str()).collect();
        json!({ "factor": ladder.factor.name().en, "cells": cells, "ceiling": ladder.ceiling.json() })
    };
    let safe = run.safe.as_ref().map(|safe| {
        let cell = &run.cells[safe.cell].judged.cell.cell.name;
        json!({ "cell": cell, "tps": safe.tps, "seconds": safe.seconds, "next": safe.next })
    });
    json!({
        "run": run.record.file.id,
        "scenario": run.record.file.scenario,
        "started": crate::judge::numbers::iso(run.record.file.started_ms),
        "ended": run.record.file.ended_ms.map(crate::judge::numbers::iso),
        "target": run.record.file.target.name,
        "command_line": run.record.file.command_line,
        "seed": run.record.file.seed,
        "verdict": verdict,
        "safe": safe,
        "above_safe": run.above.as_ref().map(|above| {
            let says = crate::sentences::Sentence::sentence(above);
            json!({ "cell": above.name, "tps": above.tps, "says": says })
        }),
        "bottleneck": run.bottleneck,
        "ladders": run.ladders.iter().map(ladder).collect::<Vec<_>>(),
        "byte_ceilings": run.bandwidth_limits,
        "effects": run.effects,
        "sensitive": run.sensitive,
        "interactions": run.interactions,
        "cells": run.cells.iter().map(case).collect::<Vec<_>>(),
    })
}

fn case(case: &Case<'_>) -> Value {
    let (figures, invalid) = match &case.judged.outcome {
        Ok(figures) => {
            // The figures of single seconds are left out, because they are in load.csv.
            let mut figures = figures.clone();
            figures.tps_seconds.clear();
            figures.p99_seconds.clear();
            let has_latency = figures.latency.max_us > 0.0;
            let mut figures = json!(figures);
            // One-way sends have no latency, rather than one of 0.
            if !has_latency {
                figures["latency"] = Value::Null;
            }
            (Some(figures), None)
        }
        Err(reasons) => (None, Some(reasons)),
    };
    let guards: Vec<Value> = case
        .guards
        .iter()
        .map(|guard| {
            json!({
                "watch": guard.watch, "node": guard.node, "measured": guard.used.is_some(),
                "holds": guard.used.map(|_| !guard.is_broken()), "headroom": guard.headroom(),
                "reading": crate::sentences::Sentence::sentence(guard),
            })
        })
        .collect();
    json!({
        "name": case.judged.cell.cell.name,
        "factors": case.factors(),
        "figures": figures,
        "invalid": invalid,
        "probe": case.is_probe(),
        "guards": guards,
        "balance": case.balance,
        "stability": case.stability,
        "backlog": case.backlog,
        "soak": case.soak,
        "failover": case.failover,
    })
}
