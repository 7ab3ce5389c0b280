use wire::body::{TopicConfig, TopicRouteData};
use wire::codes::{request as code, response};

use super::super::request_table::ROUTES;
use super::*;
use crate::testing::Fixture;

fn check(port: &Port, fields: &[(&str, &str)], expected: (i32, &str)) {
    let fixture = Fixture::new();
    fixture.broker.tables.topics.put(TopicConfig::new("T".to_owned(), 4, 6), 1).unwrap();
    let (code, remark, body) = fixture.ask_at(port.clone(), code::GET_ROUTEINFO_BY_TOPIC, fields, b"");
    let told = TopicRouteData::decode(&body).ok().and_then(|route| {
        Some(format!(
            "{} {}",
            route.queue_datas[0].write_queue_nums,
            route.broker_datas[0].broker_addrs.get(&0)?
        ))
    });
    assert_eq!((code, told.unwrap_or(remark).as_str()), expected);
}

#[test]
fn the_port_of_the_proxy_tells_where_a_topic_is() {
    let proxy = Port::Proxy(Some("proxy:8080".into()));
    check(&proxy, &[("topic", "T")], (0, "4 proxy:8080"));
    check(&Port::Proxy(None), &[("topic", "T")], (0, &format!("4 {}", crate::testing::ADDRESS)));
    check(&proxy, &[("topic", "U")], (17, "No topic route info in name server for the topic: U"));
    let refused = " request type 105 not supported: GET_ROUTEINFO_BY_TOPIC is not served here";
    check(&Port::Own, &[("topic", "T")], (3, refused));
    check(&Port::Fast, &[("topic", "T")], (3, refused));
}

#[test]
fn the_port_of_the_proxy_serves_what_javas_does_and_nothing_of_operators() {
    let fixture = Fixture::new();
    let code_at = |port: Port, code| fixture.ask_at(port, code, &[], b"").0;
    let of_proxy: Vec<i32> = ROUTES.iter().filter(|route| route.on_proxy_port).map(|it| it.code).collect();
    assert_eq!(of_proxy.len(), 24);
    for code in of_proxy {
        assert_ne!(code_at(Port::Proxy(None), code), response::REQUEST_CODE_NOT_SUPPORTED, "{code}");
    }
    for code in [code::UPDATE_AND_CREATE_TOPIC, code::DELETE_TOPIC_IN_BROKER, code::GET_BROKER_CONFIG] {
        assert_eq!(code_at(Port::Proxy(None), code), response::REQUEST_CODE_NOT_SUPPORTED, "{code}");
    }
}
