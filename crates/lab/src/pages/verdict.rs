//! Chapter 1: the sentences that matter, in one box. Markdown and JSON use the same ones.

use crate::judge::ceiling::Ceiling;
use crate::judge::conclusion::{Conclusion, SUSTAINED_SECONDS};
use crate::judge::{Text, both, numbers};

/// A name and what is said about it.
#[must_use]
pub fn lines(run: &Conclusion<'_>) -> Vec<(Text, Text)> {
    let mut lines = vec![safe(run), ceiling(run)];
    if let Some(limit) = &run.bottleneck {
        let (name, evidence) = (limit.resource.name(), &limit.evidence);
        let (en, zh, why, why_zh) = (name.en, name.zh, &evidence.en, &evidence.zh);
        // Most evidence begins with what it is about.
        let says = if why.starts_with(&en) {
            limit.evidence.clone()
        } else {
            both!("{en}: {why}", "{zh}：{why_zh}")
        };
        lines.push((both!("Bottleneck", "瓶颈"), says));
    }
    lines.push((both!("Next guard", "下一个护栏"), next(run)));
    let others = run.byte_ceilings.iter().map(|ceiling| (both!("Bandwidth", "带宽"), ceiling.says.clone()));
    lines.extend(others);
    let unsteady =
        run.top.and_then(|top| run.cells[top].stability.as_ref()).filter(|stability| stability.fluctuates);
    lines.extend(unsteady.map(|stability| (both!("Stability", "稳定性"), stability.says.clone())));
    let backlogs = run.cells.iter().filter_map(|case| case.backlog.as_ref());
    lines.extend(backlogs.map(|backlog| (both!("Backlog", "堆积"), backlog.says.clone())));
    let scale = run.scale_out.iter().map(|scale| (both!("Scale-out", "扩展"), scale.says.clone()));
    lines.extend(scale);
    lines.push((both!("Confidence", "可信度"), confidence(run)));
    lines
}

fn safe(run: &Conclusion<'_>) -> (Text, Text) {
    let name = both!("Highest safe rate", "最高安全 TPS");
    let Some(safe) = &run.safe else {
        return (
            name,
            both!("none: in no valid cell did every guard hold", "无：没有任何有效用例满足全部护栏"),
        );
    };
    let [rate, low, high] = [safe.tps.mean, safe.tps.low, safe.tps.high].map(numbers::count);
    let cell = &run.cells[safe.cell].judged.cell.cell.name;
    let (seconds, needed) = (numbers::count(safe.seconds), numbers::count(SUSTAINED_SECONDS));
    let text = if safe.seconds >= SUSTAINED_SECONDS {
        both!("{rate} msg/s ({low} – {high}), cell {cell}", "{rate} msg/s（{low} – {high}），用例 {cell}")
    } else {
        both!(
            "{rate} msg/s ({low} – {high}), cell {cell}; held for {seconds} s only: confirm {needed} s with safe-tps",
            "{rate} msg/s（{low} – {high}），用例 {cell}；仅持续 {seconds} 秒，请用 safe-tps 确认 {needed} 秒"
        )
    };
    (name, text)
}

fn ceiling(run: &Conclusion<'_>) -> (Text, Text) {
    let name = both!("Ceiling", "上限");
    let text = match run.main_ladder().map(|ladder| &ladder.ceiling) {
        Some(Ceiling::Found { tps, why, .. }) => {
            let (rate, en, zh) = (numbers::rate(*tps), &why.en, &why.zh);
            both!("{rate}: {en}", "{rate}：{zh}")
        }
        Some(Ceiling::NotSaturated { why, .. } | Ceiling::Undecided { why }) => why.clone(),
        None => both!("not looked for: no cells differ in their load alone", "未测：没有仅负载不同的用例"),
    };
    (name, text)
}

fn next(run: &Conclusion<'_>) -> Text {
    if run.top.is_none() {
        return both!("no cell is valid", "没有有效用例");
    }
    let Some(safe) = &run.safe else {
        let broken =
            run.top.map(|top| &run.cells[top].guards).into_iter().flatten().filter(|guard| !guard.holds());
        let (en, zh): (Vec<&str>, Vec<&str>) =
            broken.map(|guard| (guard.reading.en.as_str(), guard.reading.zh.as_str())).unzip();
        let (en, zh) = (en.join("; "), zh.join("；"));
        return both!("broken already at the highest rate: {en}", "最高 TPS 时已突破：{zh}");
    };
    let Some(guard) = &safe.next else { return both!("none was measured", "没有可用的护栏数据") };
    let (room, en, zh) = (numbers::percent(guard.headroom()), &guard.reading.en, &guard.reading.zh);
    let node = if guard.node.is_empty() { String::new() } else { format!(" [{}]", guard.node) };
    both!("{en}{node}: {room} of the limit is left", "{zh}{node}：余量 {room}")
}

fn confidence(run: &Conclusion<'_>) -> Text {
    let (valid, all, planned) = (run.valid(), run.cells.len(), run.record.file.cells.len());
    let repeats = run.record.file.repeats;
    let spread =
        run.top.and_then(|top| run.cells[top].judged.figures()).map_or(0.0, |figures| figures.tps.spread());
    let spread = numbers::percent(spread);
    let skew = numbers::micros(run.record.file.clock_skew_us as f64);
    both!(
        "{valid} of {all} finished cells are valid ({planned} planned), {repeats} repeats each; CI95 of the highest rate \
         ± {spread}; clocks agree within {skew}",
        "{all} 个已完成用例中 {valid} 个有效（计划 {planned} 个），每个重复 {repeats} 次；最高 TPS 的 CI95 为 ± {spread}；时钟偏差不超过 {skew}"
    )
}
