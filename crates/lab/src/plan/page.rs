//! A plan as a page, and as a chapter of a report.

use super::arithmetic::Plan;
use crate::judge::{Language, numbers};
use crate::report::{says, words};
use crate::sentences::Sentence;
use maud::{Markup, html};

/// The page with only the plan.
pub fn page(plan: &Plan, language: Language) -> String {
    let chapters = [("plan", words("Plan", "规划"), chapter(plan))];
    let title = format!("vostok lab plan · {} × (1 + {}) brokers", plan.masters, plan.slaves);
    crate::report::page((&title, html! {}), language, &chapters)
}

/// The plan as a chapter of a report.
pub fn chapter(plan: &Plan) -> Markup {
    html! {
        dl.verdict {
            dt { (words("Masters", "主节点")) } dd { (plan.masters) }
            dt { (words("Slaves of each", "每主从节点")) } dd { (plan.slaves) }
            dt { (words("Name servers", "NameServer")) } dd { (plan.name_servers) }
            dt { (words("Controllers", "Controller")) } dd { (plan.controllers) }
            dt { (words("Disk of each broker", "每个 broker 磁盘")) } dd { (numbers::bytes(plan.disk_bytes)) }
            dt { (words("Each master sends", "每主发送")) } dd { (numbers::bytes(plan.send_bytes)) "/s" }
        }
        ol { @for step in &plan.steps { li { (says(&step.sentence())) } } }
    }
}
