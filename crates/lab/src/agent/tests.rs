use super::*;

#[test]
fn clocks_are_compared_in_the_middle() {
    assert_eq!(link::apart(1000, 1500, 2000), (0, 500));
    assert_eq!(link::apart(1000, 2500, 2000), (1000, 500));
    assert_eq!(link::apart(1000, 900, 1000), (-100, 0));
}

#[test]
fn a_machine_is_watched_from_afar() {
    session::block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let flags =
            AgentFlags { listen: address.to_string(), name: Some("far".to_owned()), pid: None, gc_log: None };
        let agent = tokio::spawn(async move { serve(listener, &flags).await });
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
fn nobody_there_is_an_error_that_names_the_address() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let error = session::block_on(async { Link::connect(&free, &Asked::default()).await }).unwrap_err();
    assert!(error.to_string().starts_with(&format!("ask the agent at {free}")), "{error}");
}
