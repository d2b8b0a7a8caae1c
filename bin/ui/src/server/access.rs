//! Access rules: who gets an answer. A request needs the token, as a cookie or once in the address; the Host of the
//! server itself, because a foreign name could be rebound to the loopback address; and no other site as its origin.

use std::net::{IpAddr, SocketAddr};

/// Bits of the token, in hexadecimal digits.
const TOKEN_DIGITS: usize = 32;

/// The parts of a request that access depends on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// Query of the address, without `?`.
    pub query: Option<&'a str>,
    /// Host header.
    pub host: Option<&'a str>,
    /// Origin header.
    pub origin: Option<&'a str>,
    /// Sec-Fetch-Site header.
    pub site: Option<&'a str>,
    /// Cookie headers, joined.
    pub cookies: &'a str,
    /// Whether it changes something.
    pub changes: bool,
}

/// The answer to a request for access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It has the cookie.
    Granted,
    /// It has the token in its address: the answer sets the cookie.
    Entered,
    /// It has neither.
    NoToken,
    /// Its Host is not this server.
    OtherHost,
    /// It comes from another site.
    OtherOrigin,
}

/// The gate of one server.
#[derive(Clone, Debug)]
pub struct Gate {
    token: String,
    cookie: String,
    address: SocketAddr,
}

impl Gate {
    /// Makes the gate of a server that listens at `address`, with two random numbers as the token.
    pub fn new(address: SocketAddr, random: [u64; 2]) -> Gate {
        let token = format!("{:016x}{:016x}", random[0], random[1]);
        debug_assert_eq!(token.len(), TOKEN_DIGITS);
        // Browsers keep one set of cookies for all ports of a host.
        Gate { token, cookie: format!("weft_ui_{}", address.port()), address }
    }

    /// Returns the address for a browser, with the token.
    pub fn url(&self) -> String {
        let ip = self.address.ip();
        let host = match ip {
            ip if ip.is_unspecified() => "127.0.0.1".to_owned(),
            IpAddr::V6(ip) => format!("[{ip}]"),
            IpAddr::V4(ip) => ip.to_string(),
        };
        format!("http://{host}:{}/?token={}", self.address.port(), self.token)
    }

    /// Returns the value of the Set-Cookie header that replaces the token in the address.
    pub fn set_cookie(&self) -> String {
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie, self.token)
    }

    /// Judges a request.
    pub fn judge(&self, asked: &Asked<'_>) -> Access {
        let Some(host) = asked.host.filter(|host| self.is_own(host)) else { return Access::OtherHost };
        let own = |origin: &str| origin.strip_prefix("http://").is_some_and(|rest| rest.eq_ignore_ascii_case(host));
        let foreign = match asked.origin {
            Some(origin) => !own(origin),
            // Browsers send an Origin with every request that changes something.
            None => asked.changes,
        };
        if foreign || asked.site.is_some_and(|site| asked.changes && site != "same-origin") {
            return Access::OtherOrigin;
        }
        if cookies(asked.cookies).any(|(name, value)| name == self.cookie && is_same(value, &self.token)) {
            return Access::Granted;
        }
        let token = asked.query.unwrap_or_default().split('&').find_map(|part| part.strip_prefix("token="));
        if !asked.changes && token.is_some_and(|token| is_same(token, &self.token)) {
            return Access::Entered;
        }
        Access::NoToken
    }

    /// Returns whether a Host header names this server: an address or `localhost`, never another name.
    fn is_own(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, port.parse().unwrap_or(0)),
            _ => (host, 80),
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let is_address = match name.parse::<IpAddr>() {
            Ok(ip) => self.address.ip().is_unspecified() || ip == self.address.ip(),
            Err(_) => name.eq_ignore_ascii_case("localhost") && self.address.ip().is_loopback(),
        };
        is_address && port == self.address.port()
    }
}

fn cookies(header: &str) -> impl Iterator<Item = (&str, &str)> {
    header.split(';').filter_map(|part| part.trim().split_once('='))
}

/// Compares without telling by the time how much of the beginning is right.
fn is_same(given: &str, wanted: &str) -> bool {
    let differ = given.bytes().zip(wanted.bytes()).fold(0u8, |differ, (a, b)| differ | (a ^ b));
    given.len() == wanted.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        Gate::new("127.0.0.1:7007".parse().unwrap(), [1, 2])
    }

    const COOKIE: &str = "other=1; weft_ui_7007=00000000000000010000000000000002";

    fn asked<'a>() -> Asked<'a> {
        Asked { host: Some("127.0.0.1:7007"), cookies: COOKIE, ..Asked::default() }
    }

    #[test]
    fn the_token_opens_once_in_the_address_and_then_as_a_cookie() {
        let gate = gate();
        let query = gate.url().rsplit_once('?').unwrap().1.to_owned();
        assert_eq!(gate.url(), "http://127.0.0.1:7007/?token=00000000000000010000000000000002");
        assert_eq!(gate.judge(&asked()), Access::Granted);
        let first = Asked { cookies: "", query: Some(&query), ..asked() };
        assert_eq!(gate.judge(&first), Access::Entered);
        assert_eq!(
            gate.judge(&Asked { changes: true, origin: Some("http://127.0.0.1:7007"), ..first }),
            Access::NoToken,
            "an action needs the cookie"
        );
        for wrong in ["token=", "token=0000000000000001000000000000000", "token=00000000000000010000000000000003", ""] {
            assert_eq!(gate.judge(&Asked { query: Some(wrong), ..first }), Access::NoToken, "{wrong}");
        }
        for wrong in ["", "weft_ui_7007", "weft_ui_7007=", "weft_ui_7008=00000000000000010000000000000002", ";;=;"] {
            assert_eq!(gate.judge(&Asked { cookies: wrong, ..asked() }), Access::NoToken, "{wrong}");
        }
    }

    #[test]
    fn another_host_gets_no_answer_even_with_the_token() {
        for host in ["localhost:7007", "LOCALHOST:7007", "127.0.0.1:7007"] {
            assert_eq!(gate().judge(&Asked { host: Some(host), ..asked() }), Access::Granted, "{host}");
        }
        for host in [
            "evil.example:7007",
            "127.0.0.1",
            "127.0.0.1:7008",
            "localhost",
            "",
            "127.0.0.1.evil:7007",
            "[::1]:7007",
            "127.0.0.2:7007",
        ] {
            assert_eq!(gate().judge(&Asked { host: Some(host), ..asked() }), Access::OtherHost, "{host}");
        }
        assert_eq!(gate().judge(&Asked { host: None, ..asked() }), Access::OtherHost);
        let six = Gate::new("[::1]:7007".parse().unwrap(), [1, 2]);
        assert_eq!(six.judge(&Asked { host: Some("[::1]:7007"), ..asked() }), Access::Granted);
        assert!(six.url().starts_with("http://[::1]:7007/?token="));
        let all = Gate::new("0.0.0.0:7007".parse().unwrap(), [1, 2]);
        assert_eq!(all.judge(&Asked { host: Some("192.0.2.7:7007"), ..asked() }), Access::Granted);
        assert_eq!(all.judge(&Asked { host: Some("evil.example:7007"), ..asked() }), Access::OtherHost);
    }

    #[test]
    fn another_origin_gets_no_answer() {
        let of = |origin, site, changes| gate().judge(&Asked { origin, site, changes, ..asked() });
        assert_eq!(of(Some("http://127.0.0.1:7007"), Some("same-origin"), true), Access::Granted);
        assert_eq!(of(Some("http://127.0.0.1:7007"), None, true), Access::Granted, "an older browser");
        assert_eq!(of(None, None, true), Access::OtherOrigin, "an action without an origin");
        for origin in
            ["http://evil.example", "null", "https://127.0.0.1:7007", "http://127.0.0.1:80", "http://localhost:7007"]
        {
            assert_eq!(of(Some(origin), None, true), Access::OtherOrigin, "{origin}");
            assert_eq!(of(Some(origin), None, false), Access::OtherOrigin, "{origin}");
        }
        assert_eq!(of(Some("http://127.0.0.1:7007"), Some("cross-site"), true), Access::OtherOrigin);
    }
}
