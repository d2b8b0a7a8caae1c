//! The server as a client sees it, over real connections.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::access::Gate;
use super::{App, router, serve};
use crate::hub::Hub;
use crate::limits::{CONNECTIONS_MAX, VIEWERS_MAX};
use crate::model::Model;
use crate::model::log::Topic;
use crate::poller::Command;

struct Bench {
    address: SocketAddr,
    hub: Arc<Hub>,
    cookie: String,
    daemon: Mutex<Receiver<Command>>,
    _managers: Mutex<Receiver<Command>>,
}

fn bench(read_only: bool) -> Bench {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let gate = Arc::new(Gate::new(address, [7, 8]));
    let cookie = gate.set_cookie().split(';').next().expect("a cookie").to_owned();
    let hub = Arc::new(Hub::new(Model::new(read_only)));
    let ((daemon, commands), (managers, others)) = (sync_channel(1), sync_channel(1));
    let app = App { gate, hub: Arc::clone(&hub), daemon, managers };
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(serve(listener, router(app)))
    });
    Bench { address, hub, cookie, daemon: Mutex::new(commands), _managers: Mutex::new(others) }
}

impl Bench {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        stream
    }

    /// Sends a request and returns the whole answer.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let mut stream = self.connect();
        let (host, length) = (self.address, body.len());
        let host = if headers.contains("Host:") { String::new() } else { format!("Host: {host}\r\n") };
        let head =
            format!("{method} {path} HTTP/1.1\r\n{host}Connection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
        // The server may answer, and close, before it has read all of a body that is too long.
        let _ = stream.write_all((head + body).as_bytes());
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    fn own(&self) -> String {
        format!("Cookie: {}\r\nOrigin: http://{}\r\nContent-Type: application/json\r\n", self.cookie, self.address)
    }
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn without_the_token_there_is_no_answer_of_any_kind() {
    let bench = bench(false);
    for path in ["/", "/app.js", "/style.css", "/api/events", "/nothing", "/?token=00", "/?token="] {
        let answer = bench.ask("GET", path, "", "");
        assert_eq!(status(&answer), "401", "{path}: {answer}");
        assert!(
            !answer.contains("<html") && answer.contains("content-security-policy: default-src 'none'"),
            "{answer}"
        );
    }
    let first = bench.ask("GET", "/?token=00000000000000070000000000000008", "", "");
    assert_eq!(status(&first), "200");
    assert!(first.contains(&format!("set-cookie: {}; HttpOnly; SameSite=Strict; Path=/", bench.cookie)), "{first}");
    let own = format!("Cookie: {}\r\n", bench.cookie);
    let script = bench.ask("GET", "/app.js", &own, "");
    assert!(status(&script) == "200" && script.contains("content-type: text/javascript"), "{script}");
    assert!(!script.contains("set-cookie"));
    assert_eq!(status(&bench.ask("GET", "/nothing", &own, "")), "404");
}

#[test]
fn other_hosts_and_origins_are_refused_even_with_the_cookie() {
    let bench = bench(false);
    let own = format!("Cookie: {}\r\n", bench.cookie);
    assert_eq!(status(&bench.ask("GET", "/", &format!("{own}Host: evil.example\r\n"), "")), "403");
    assert_eq!(status(&bench.ask("GET", "/api/events", &format!("{own}Origin: http://evil.example\r\n"), "")), "403");
    let json = "Content-Type: application/json\r\n";
    let body = r#"{"kind":"node","name":"node1","change":{"to":"off"}}"#;
    for origin in ["", "Origin: http://evil.example\r\n", "Origin: null\r\n"] {
        let answer = bench.ask("POST", "/api/action", &format!("{own}{origin}{json}"), body);
        assert_eq!(status(&answer), "403", "{origin}: {answer}");
    }
    assert!(bench.daemon.lock().expect("it is free").try_recv().is_err(), "nothing reached the daemon");
}

#[test]
fn actions_reach_the_daemon_and_their_errors_the_page() {
    let bench = bench(false);
    let body = r#"{"kind":"node","name":"node1","change":{"to":"off"}}"#;
    let answer = std::thread::scope(|scope| {
        let asked = scope.spawn(|| bench.ask("POST", "/api/action", &bench.own(), body));
        let command = bench.daemon.lock().expect("it is free").recv_timeout(Duration::from_secs(60));
        let Ok(Command::Act(_, answer)) = command else { panic!("an action") };
        answer.send(Err("no such node".to_owned())).expect("it waits");
        asked.join().expect("an answer")
    });
    assert!(status(&answer) == "409" && answer.ends_with("no such node\n"), "{answer}");
    assert_eq!(status(&bench.ask("POST", "/api/action", &bench.own(), "{}")), "400");
    assert_eq!(status(&bench.ask("POST", "/api/action", &bench.own(), &"x".repeat(1 << 20))), "413");
    let plain = bench.own().replace("application/json", "text/plain");
    assert_eq!(status(&bench.ask("POST", "/api/action", &plain, body)), "415");
    assert_eq!(status(&bench.ask("GET", "/api/action", &bench.own(), "")), "405");
    let strict = self::bench(true);
    assert_eq!(status(&strict.ask("POST", "/api/action", &strict.own(), body)), "403");
}

/// Reads until a text has come.
fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut all = Vec::new();
    let mut part = [0; 4096];
    while !String::from_utf8_lossy(&all).contains(text) {
        let length = stream.read(&mut part).expect("more");
        assert!(length > 0, "the stream ended: {}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&part[..length]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn events_come_as_they_happen_and_pages_are_bounded() {
    let bench = bench(false);
    let head = format!("GET /api/events HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n", bench.address, bench.cookie);
    let mut page = bench.connect();
    page.write_all(head.as_bytes()).expect("a request");
    let first = read_until(&mut page, "event: history");
    assert!(
        first.contains("content-type: text/event-stream") && first.contains("event: fabric\ndata: null\n"),
        "{first}"
    );
    bench.hub.change(|model, _| model.log.add(1, Topic::Link, true, "a cable is cut"));
    assert!(read_until(&mut page, "a cable is cut").contains("event: log"));
    let mut others: Vec<TcpStream> = (1..VIEWERS_MAX).map(|_| bench.connect()).collect();
    for other in &mut others {
        other.write_all(head.as_bytes()).expect("a request");
        read_until(other, "event: history");
    }
    let mut late = bench.connect();
    late.write_all(head.as_bytes()).expect("a request");
    assert!(read_until(&mut late, "too many").starts_with("HTTP/1.1 503"));
}

/// Resident memory of this process in KiB.
fn resident_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4
}

#[test]
fn a_thousand_connections_neither_grow_memory_nor_keep_others_out_for_long() {
    let bench = bench(false);
    let own = format!("Cookie: {}\r\n", bench.cookie);
    let storm = || {
        let idle: Vec<TcpStream> = (0..1000).filter_map(|_| TcpStream::connect(bench.address).ok()).collect();
        // Beyond the bound they are closed at once: a read ends.
        let is_closed = |mut stream: &TcpStream| {
            stream.set_read_timeout(Some(Duration::from_secs(60))).is_ok() && !matches!(stream.read(&mut [0]), Ok(1..))
        };
        assert!(idle.iter().skip(CONNECTIONS_MAX).filter(|stream| is_closed(stream)).count() > 800);
    };
    storm();
    let before = resident_kib();
    (0..3).for_each(|_| storm());
    let after = resident_kib();
    assert!(after < before + 8 * 1024, "{before} KiB, then {after} KiB");
    while status(&bench.ask("GET", "/", &own, "")) != "200" {
        std::thread::sleep(Duration::from_millis(20));
    }
}
