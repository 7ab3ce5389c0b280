use super::*;
use crate::echo::{Echo, EchoOptions};
use crate::generator::{IntervalSample, Workload};

#[test]
fn clocks_are_compared_in_the_middle() {
    let apart = |before_us, (now_us, took_us), after_us| {
        link::apart(before_us, &Hello { now_us, took_us, ..Hello::default() }, after_us)
    };
    assert_eq!(apart(1000, (1500, 0), 2000), (0, 500));
    assert_eq!(apart(1000, (2500, 0), 2000), (1000, 500));
    assert_eq!(apart(1000, (900, 0), 1000), (-100, 0));
    // Most of the time was spent on describing the machine.
    assert_eq!(apart(1000, (1950, 900), 2000), (0, 50));
    assert_eq!(apart(1000, (2000, 5000), 2000), (0, 0));
}

fn options(load: bool) -> AgentOptions {
    AgentOptions { name: Some("far".to_owned()), load, ..AgentOptions::default() }
}

/// An address without a listening process.
const NOBODY: &str = "127.0.0.1:1";

/// An agent on a free port.
async fn agent(load: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { serve(listener, &options(load)).await });
    address
}

fn echo() -> String {
    let options = EchoOptions::local(4);
    let echo = Echo::bind(&options).unwrap();
    let address = echo.address().unwrap().to_string();
    std::thread::spawn(move || echo.serve());
    address
}

#[test]
fn load_of_several_machines_adds_up() {
    runtime::block_on(async {
        let addresses = [agent(true).await, agent(true).await];
        let workload = Workload {
            namesrv: echo(),
            threads: 8,
            rate: Some(3000.0),
            send_timeout_ms: 3_600_000,
            ..Workload::default()
        };
        let (mut fleet, share) = Fleet::prepare(&addresses, &workload).await?;
        assert_eq!(
            (share.threads, share.rate),
            (3, Some(1000.0)),
            "the rest of eight by three goes to the first"
        );
        let wait = fleet.start().await?;
        assert!(wait <= fleet::LEAD);
        // The lab's own share is not run here, so all figures come from the agents.
        let mut sum = IntervalSample::default();
        // A sample may fall between two counters of a message; a later sample agrees.
        let end = Instant::now() + Duration::from_secs(120);
        while Instant::now() < end {
            if sum.sent >= 1000 && sum.sent_bytes == sum.sent * 1024 && sum.latency.len() == sum.sent {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            fleet.add_to(&mut sum).await?;
        }
        fleet.stop().await?;
        assert!(sum.sent >= 1000);
        assert_eq!(sum.sent_bytes, sum.sent * 1024);
        assert_eq!(sum.latency.len(), sum.sent, "every latency of both arrived");
        assert!(sum.failed == 0 && sum.cpu_us > 0);
        Ok(())
    })
    .unwrap();
}

#[test]
fn histograms_travel_exactly() {
    let mut sample = IntervalSample { sent: 3, lasted_ms: 1000, ..IntervalSample::default() };
    for value in [1, 777, 59_000_000] {
        sample.latency.saturating_record(value);
    }
    let text = serde_json::to_string(&orders::Did::of(&sample).unwrap()).unwrap();
    let read = serde_json::from_str::<orders::Did>(&text).unwrap().sample(5).unwrap();
    assert_eq!((read.sent, read.at_ms, &read.latency), (3, 5, &sample.latency));
}

#[test]
fn an_agent_runs_no_load_unless_it_was_told_to() {
    let error = runtime::block_on(async {
        let workload = Workload { namesrv: "127.0.0.1:1".to_owned(), threads: 2, ..Workload::default() };
        Fleet::prepare(&[agent(false).await], &workload).await
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("vostok lab agent --load"), "{error}");
}

#[test]
fn what_an_agent_cannot_do_is_told() {
    let error = runtime::block_on(async {
        let workload = Workload { namesrv: NOBODY.to_owned(), threads: 2, ..Workload::default() };
        Fleet::prepare(&[agent(true).await], &workload).await
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("run load on the agent at 127.0.0.1:") && error.contains(NOBODY), "{error}");
}

#[test]
fn an_order_that_is_cut_off_or_too_long_ends_the_load() {
    let obey = |bytes: Vec<u8>| {
        let ended = runtime::block_on(async {
            Ok(orders::obey(&mut bytes.as_slice(), &mut tokio::io::sink())
                .await
                .map_err(|error| error.to_string()))
        });
        ended.unwrap()
    };
    assert_eq!(obey(Vec::new()), Ok(()));
    assert_eq!(obey(b"\"stop".to_vec()).unwrap_err(), "the connection ended in the middle of an order");
    assert_eq!(obey(vec![b' '; 1 << 20]).unwrap_err(), "an order has more than 1048576 bytes");
    assert_eq!(obey(vec![b' '; (1 << 20) + 1]).unwrap_err(), "an order has more than 1048576 bytes");
}

#[test]
fn every_machine_needs_a_request_in_flight() {
    let refused =
        runtime::block_on(async { Fleet::prepare(&["127.0.0.1:1".to_owned()], &Workload::default()).await });
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("1 requests in flight over 2 machines"), "{error}");
}

#[test]
fn a_machine_is_watched_from_afar() {
    runtime::block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let agent = tokio::spawn(async move { serve(listener, &options(false)).await });
        let asked = Asked { port: Some(address.port()), ..Asked::default() };
        let mut link = Link::connect(&address.to_string(), &asked).await.unwrap();
        assert_eq!(link.hello.host.name, "far");
        assert!(link.hello.has_process && link.hello.host.cores > 0);
        assert!(link.ahead_us.unsigned_abs() <= link.skew_us, "the same clock: {link:?}");
        let second = link.next().await.unwrap();
        assert!(second.memory_available > 0 && second.process_memory > 0, "{second:?}");
        agent.abort();
        Ok(())
    })
    .unwrap();
}

#[test]
fn an_agent_tells_the_limits_of_its_machine_and_of_no_other_disk() {
    runtime::block_on(async {
        let place = tempfile::tempdir().unwrap();
        let host = async |measured: &str, store: PathBuf| {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let roofline = Roofline { disk_flushes: 77.0, net_bytes: 5.0, ..Default::default() };
            let roofline = Some((measured.to_owned(), roofline));
            let options = AgentOptions { roofline, ..options(false) };
            tokio::spawn(async move { serve(listener, &options).await });
            let asked = Asked { store: Some(store), ..Asked::default() };
            Link::connect(&address, &asked).await.unwrap().hello.host
        };
        let limits = |host: &HostFile| {
            host.roofline.as_ref().map(|roofline| (roofline.disk_flushes, roofline.net_bytes))
        };
        let own = device_of(place.path());
        let here = host(&own, place.path().to_owned()).await;
        assert_eq!(limits(&here), Some((77.0, 5.0)));
        assert_eq!(here.filesystem, measure::host("", place.path(), None).filesystem);
        let other = host("another disk", place.path().to_owned()).await;
        assert_eq!(limits(&other), Some((0.0, 5.0)));
        let missing = host(&own, place.path().join("missing")).await;
        assert_eq!((missing.disk.as_str(), missing.filesystem.as_str()), ("", ""));
        assert_eq!(limits(&missing), Some((0.0, 5.0)));
        Ok(())
    })
    .unwrap();
}

#[test]
fn nobody_there_is_an_error_that_names_the_address() {
    let error = runtime::block_on(async { Link::connect(NOBODY, &Asked::default()).await }).unwrap_err();
    assert!(error.to_string().starts_with(&format!("ask the agent at {NOBODY}")), "{error}");
}
