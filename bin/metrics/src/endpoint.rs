//! HTTP endpoint of a page of metrics: a thread for each connection, a bounded number of them, one request each.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::exposition::CONTENT_TYPE;
use crate::request::{HEAD_BYTES_MAX, Request, parse};

/// Connections served at the same time. Others are refused with status 503.
const CONNECTIONS_MAX: usize = 16;
/// Refused connections that are open, for clients to read the answer.
const REFUSED_MAX: usize = 16;
/// Time that a client has for its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that a client has to take a part of the answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after the system refused a connection, for lack of descriptors for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const INDEX: &str =
    "<!doctype html><title>Weft</title><p>Metrics for Prometheus: <a href=\"/metrics\">/metrics</a></p>\n";

/// A listening endpoint.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
}

impl Endpoint {
    /// Listens at an address.
    ///
    /// # Errors
    /// The address is in use, is not this machine's, or needs privileges.
    pub fn bind(address: SocketAddr) -> io::Result<Endpoint> {
        Ok(Endpoint { listener: TcpListener::bind(address)? })
    }

    /// Returns the address, with the port that the system chose for port 0.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves without end. `collect` makes the page, for one request at a time; its error is the answer's text.
    pub fn serve(&self, collect: impl FnMut() -> Result<String, String> + Send) {
        let (collect, open) = (Mutex::new(collect), AtomicUsize::new(0));
        let mut refused = VecDeque::new();
        std::thread::scope(|threads| {
            loop {
                let Ok((stream, _)) = self.listener.accept() else {
                    std::thread::sleep(ACCEPT_PAUSE);
                    continue;
                };
                if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
                    open.fetch_sub(1, Ordering::Relaxed);
                    refused.extend(refuse(stream));
                    if refused.len() > REFUSED_MAX {
                        refused.pop_front();
                    }
                    continue;
                }
                let (collect, open) = (&collect, &open);
                let served = std::thread::Builder::new().name("metrics".to_owned()).spawn_scoped(threads, move || {
                    // A client that goes away costs only its own answer.
                    let _ = answer(stream, || (*collect.lock().unwrap_or_else(PoisonError::into_inner))());
                    open.fetch_sub(1, Ordering::Relaxed);
                });
                if served.is_err() {
                    open.fetch_sub(1, Ordering::Relaxed);
                    std::thread::sleep(ACCEPT_PAUSE);
                }
            }
        })
    }
}

/// Tells a client that all connections are taken, without waiting for it. Returns the connection, which must stay open for a
/// while: the request is not read, and the system resets a connection that is closed with unread bytes, so that the client
/// might not get to read the answer.
fn refuse(mut stream: TcpStream) -> Option<TcpStream> {
    let text = "too many connections; try again later\n";
    stream.set_nonblocking(true).ok()?;
    stream.write_all(response("503 Service Unavailable", "text/plain", text, true).as_bytes()).ok()?;
    stream.shutdown(Shutdown::Write).ok()?;
    Some(stream)
}

/// Reads a request and answers it.
fn answer(mut stream: TcpStream, collect: impl FnOnce() -> Result<String, String>) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let request = read(&mut stream)?;
    let text = match request {
        Request::Metrics { body } => match collect() {
            Ok(page) => response("200 OK", CONTENT_TYPE, &page, body),
            Err(error) => response("500 Internal Server Error", "text/plain", &(error + "\n"), body),
        },
        Request::Index => response("200 OK", "text/html", INDEX, true),
        Request::Unknown => response("404 Not Found", "text/plain", "the metrics are at /metrics\n", true),
        Request::WrongMethod => response("405 Method Not Allowed", "text/plain", "GET and HEAD are served\n", true),
        Request::Malformed => response("400 Bad Request", "text/plain", "the request is malformed\n", true),
    };
    stream.write_all(text.as_bytes())?;
    stream.shutdown(Shutdown::Write)
}

/// Reads a request's head, for no longer than its timeout.
fn read(stream: &mut TcpStream) -> io::Result<Request> {
    let deadline = Instant::now() + REQUEST_TIMEOUT;
    let (mut head, mut part) = (Vec::new(), [0; 2048]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let length = stream.read(&mut part)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(part.get(..length).unwrap_or_default());
        head.truncate(HEAD_BYTES_MAX);
        if let Some(request) = parse(&head) {
            return Ok(request);
        }
    }
}

fn response(status: &str, content_type: &str, content: &str, body: bool) -> String {
    let length = content.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    if body { head + content } else { head }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    }

    fn started() -> SocketAddr {
        let endpoint = Endpoint::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let address = endpoint.address().expect("its address");
        let mut count = 0;
        std::thread::spawn(move || {
            endpoint.serve(move || {
                count += 1;
                if count == 3 { Err("no daemon".to_owned()) } else { Ok(format!("weft_count {count}\n")) }
            })
        });
        address
    }

    #[test]
    fn pages_are_served_one_after_the_other() {
        let address = started();
        let first = ask(address, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(first.starts_with("HTTP/1.1 200 OK\r\n") && first.ends_with("\r\n\r\nweft_count 1\n"), "{first}");
        let head = ask(address, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 13\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        let failed = ask(address, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(failed.starts_with("HTTP/1.1 500 ") && failed.ends_with("no daemon\n"), "{failed}");
        assert!(ask(address, "GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(ask(address, "\r\n\r\n").starts_with("HTTP/1.1 400 "));
    }

    #[test]
    fn connections_are_bounded() {
        let address = started();
        let idle: Vec<_> =
            (0..CONNECTIONS_MAX).map(|_| TcpStream::connect(address).expect("the system takes it")).collect();
        // The thread that accepts serves connections in their order.
        let mut stream = TcpStream::connect(address).expect("the system takes it");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("a refusal");
        assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
        drop(idle);
        let until = Instant::now() + REQUEST_TIMEOUT;
        while !ask(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 ") {
            assert!(Instant::now() < until, "the places stay taken");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
