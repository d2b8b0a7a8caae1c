//! Requests of HTTP/1.1, as far as an endpoint of metrics needs them: the request line, and where the head ends.

/// Longest head of a request in bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 8 << 10;

/// A client's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// The page of metrics; `body`: with its content (GET), not only its head (HEAD).
    Metrics {
        /// Whether to send the content.
        body: bool,
    },
    /// The page at `/`, which leads people to the metrics.
    Index,
    /// Another path.
    Unknown,
    /// Another method than GET and HEAD.
    WrongMethod,
    /// Bytes that are no request.
    Malformed,
}

/// Parses the head of a request; `None` while it is incomplete.
pub(crate) fn parse(bytes: &[u8]) -> Option<Request> {
    let complete = bytes.windows(4).any(|end| end == b"\r\n\r\n") || bytes.windows(2).any(|end| end == b"\n\n");
    if !complete {
        return (bytes.len() >= HEAD_BYTES_MAX).then_some(Request::Malformed);
    }
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return Some(Request::Malformed) };
    let mut words = line.trim_end().split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Some(Request::Malformed);
    };
    if !version.starts_with("HTTP/1.") {
        return Some(Request::Malformed);
    }
    let path = target.split('?').next().unwrap_or_default();
    Some(match (method, path) {
        ("GET", "/metrics") => Request::Metrics { body: true },
        ("HEAD", "/metrics") => Request::Metrics { body: false },
        ("GET", "/") => Request::Index,
        ("GET" | "HEAD", _) => Request::Unknown,
        _ => Request::WrongMethod,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_its_first_line() {
        let of = |text: &str| parse(text.as_bytes());
        assert_eq!(of("GET /metrics HTTP/1.1\r\nHost: x\r\n"), None);
        assert_eq!(of("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), Some(Request::Metrics { body: true }));
        assert_eq!(of("GET /metrics?a=b HTTP/1.0\n\n"), Some(Request::Metrics { body: true }));
        assert_eq!(of("HEAD /metrics HTTP/1.1\r\n\r\n"), Some(Request::Metrics { body: false }));
        assert_eq!(of("GET / HTTP/1.1\r\n\r\n"), Some(Request::Index));
        assert_eq!(of("GET /x HTTP/1.1\r\n\r\n"), Some(Request::Unknown));
        assert_eq!(of("POST /metrics HTTP/1.1\r\n\r\n"), Some(Request::WrongMethod));
        for wrong in ["\r\n\r\n", "GET /metrics\r\n\r\n", "GET /metrics HTTP/2.0\r\n\r\n", "a b c d\r\n\r\n"] {
            assert_eq!(of(wrong), Some(Request::Malformed), "{wrong:?}");
        }
        assert_eq!(parse(&[0xff; 10]), None);
        assert_eq!(parse(&[b'a'; HEAD_BYTES_MAX]), Some(Request::Malformed));
        assert_eq!(parse(b"\xff\xff\r\n\r\n"), Some(Request::Malformed));
    }
}
