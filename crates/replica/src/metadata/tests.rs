use super::*;
use crate::testing::{check, number};

fn small(word: &str) -> u32 {
    u32::try_from(number(word)).expect("small")
}

fn event(words: &[&str]) -> MetadataEvent {
    match words[0] {
        "master" => MetadataEvent::Master((words[1] != "none").then(|| words[1].to_owned())),
        "received" => {
            let total = (words[3] != "-").then(|| small(words[3]));
            let page = Page { count: small(words[2]), total, version: number(words[4]) };
            MetadataEvent::Received(PullId(number(words[1])), page)
        }
        "failed" => MetadataEvent::Failed(PullId(number(words[1]))),
        "timer" => MetadataEvent::Timer,
        other => panic!("no event is called {other}"),
    }
}

#[test]
fn a_classic_slave_pulls_the_timer_checkpoint_often_and_everything_each_minute() {
    let mut metadata = Metadata::new(0, MetadataConfig::CLASSIC);
    check("metadata/scripts/classic.txt", |now_ms, words, out| metadata.step(now_ms, event(words), out));
}

#[test]
fn pages_are_put_together_only_when_they_fit() {
    let mut metadata = Metadata::new(0, MetadataConfig::CONTROLLER);
    check("metadata/scripts/pages.txt", |now_ms, words, out| metadata.step(now_ms, event(words), out));
}

#[test]
fn requests_go_to_the_ports_a_java_slave_uses() {
    let codes = [
        (Item::Topics, 21, true),
        (Item::ConsumerOffsets, 43, false),
        (Item::DelayOffsets, 45, false),
        (Item::Groups, 201, false),
        (Item::RequestModes, 402, false),
        (Item::TimerCheckpoint, 60, true),
        (Item::TimerMetrics, 61, true),
    ];
    for (item, code, is_on_fast_port) in codes {
        assert_eq!((item.code(), item.is_on_fast_port()), (code, is_on_fast_port), "{item:?}");
    }
}
