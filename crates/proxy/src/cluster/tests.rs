use super::*;

#[test]
fn pops_that_wait_are_no_calls_that_are_served() {
    let reach = Client::start(client::Config::new("127.0.0.1:1")).unwrap();
    let cluster = Cluster::new(reach, None, &Config { calls_max: 1, ..Config::default() });
    assert_eq!(cluster.pops.available_permits(), HELD_MAX);
    cluster.client.shutdown();
}

#[test]
fn queues_are_on_the_brokers_of_the_route() {
    let route = TopicRouteData::decode(
        br#"{"brokerDatas":[{"brokerAddrs":{"0":"a:1","1":"a:2"},"brokerName":"A","cluster":"C"},
            {"brokerAddrs":{"2":"b:2"},"brokerName":"B","cluster":"C"}],
            "queueDatas":[{"brokerName":"A","perm":6,"readQueueNums":3,"writeQueueNums":2},
            {"brokerName":"gone","perm":6,"readQueueNums":9,"writeQueueNums":9},
            {"brokerName":"B","perm":6,"readQueueNums":1,"writeQueueNums":1}]}"#,
    )
    .unwrap();
    assert_eq!(preferred(&route.broker_datas[1]), Some("b:2"));
    let queues = queues(route);
    let seen: Vec<_> =
        queues.iter().map(|of| (&*of.broker, &*of.ids, of.is_readable(), of.is_writable())).collect();
    assert_eq!(seen, [("A", &[0, 1][..], true, true), ("B", &[2][..], true, false)]);
}
