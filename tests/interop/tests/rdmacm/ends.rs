//! A server that listens by the connection manager, and its client.

use anyhow::{Context, Result, bail};
use std::time::{Duration, Instant};
use weft_interop::{Ended, Lab, Proc, Who};

/// How long a server gets before its first client.
const SETTLES_WITHIN: Duration = Duration::from_millis(300);
/// How long clients that are refused try again.
const REFUSED_UNTIL: Duration = Duration::from_secs(6);
/// A refusal is quick; what took longer has another reason.
const REFUSAL_WITHIN: Duration = Duration::from_secs(2);
/// What the programs say when nobody listens.
const REFUSALS: [&str; 4] = ["REJECTED", "event 8", "Connection refused", "event: RDMA_CM_EVENT_REJECTED"];

/// What a server and a client are to do.
#[derive(Clone, Debug)]
pub struct Ends {
    server: Vec<String>,
    client: Vec<String>,
    who: Who,
    limit: Duration,
}

impl Ends {
    /// `tool ARGS` at both ends.
    pub fn new(tool: &str, args: &str) -> Ends {
        let words: Vec<_> = std::iter::once(tool).chain(args.split_whitespace()).map(str::to_owned).collect();
        Ends { server: words.clone(), client: words, who: Who::Root, limit: Duration::from_secs(40) }
    }

    /// Adds words to each command line.
    #[must_use]
    pub fn each(mut self, server: &str, client: &str) -> Ends {
        self.server.extend(server.split_whitespace().map(str::to_owned));
        self.client.extend(client.split_whitespace().map(str::to_owned));
        self
    }

    /// Runs both as `who`.
    #[must_use]
    pub fn who(mut self, who: Who) -> Ends {
        self.who = who;
        self
    }

    /// Starts the server, and gives it time to listen.
    pub fn start_server(&self, lab: &Lab) -> Result<Proc> {
        let words: Vec<_> = self.server.iter().map(String::as_str).collect();
        let mut server = lab.start(lab.server(), self.who, &[], &words)?;
        server.wait_until(SETTLES_WITHIN, |_| false);
        if !server.running() {
            bail!("the server ended at once:\n      {}", server.wait(Duration::ZERO).report());
        }
        Ok(server)
    }

    /// Starts the client.
    pub fn start_client(&self, lab: &Lab) -> Result<Proc> {
        let words: Vec<_> = self.client.iter().map(String::as_str).collect();
        lab.start(lab.client(), self.who, &[], &words)
    }

    /// Runs a client to success. One that is refused at once was too early.
    pub fn retried_client(&self, lab: &Lab) -> Result<Ended> {
        let started = Instant::now();
        loop {
            let ended = self.start_client(lab)?.wait(self.limit);
            let refused = !ended.ok()
                && ended.took < REFUSAL_WITHIN
                && REFUSALS.iter().any(|refusal| ended.text.contains(refusal));
            if !refused || started.elapsed() > REFUSED_UNTIL {
                return Ok(ended);
            }
        }
    }

    /// Runs both to success, then hands both texts to `judge`: the client's, the server's.
    pub fn judged(&self, lab: &Lab, judge: impl Fn(&str, &str) -> Result<()>) -> Result<()> {
        let server = self.start_server(lab)?;
        let client = self.retried_client(lab)?;
        let server = server.wait(if client.ok() { Duration::from_secs(15) } else { Duration::from_secs(1) });
        let report = || format!("server: {}\n      client: {}", server.report(), client.report());
        if !(client.ok() && server.ok()) {
            bail!("{}", report());
        }
        judge(&client.text, &server.text).with_context(report)
    }
}
