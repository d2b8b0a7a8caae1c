//! A server that listens by the connection manager, and its client.

use anyhow::{Context, Result, bail};
use std::time::Duration;
use weft_interop::{Lab, Proc, Who};

/// How long a server may take until it listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(15);

/// What a server and a client are to do.
#[derive(Clone, Debug)]
pub struct Ends {
    server: Vec<String>,
    client: Vec<String>,
    who: Who,
    limit: Duration,
    ready: &'static str,
}

impl Ends {
    /// `tool ARGS` at both ends.
    pub fn new(tool: &str, args: &str) -> Ends {
        Ends::two(&format!("{tool} {args}"), &format!("{tool} {args}"))
    }

    /// A tool of its own at each end.
    pub fn two(server: &str, client: &str) -> Ends {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        let (who, limit) = (Who::Root, Duration::from_secs(40));
        Ends { server: words(server), client: words(client), who, limit, ready: "state LISTEN" }
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

    /// The words of `weft resource` that say that the server is ready, in place of listening.
    #[must_use]
    pub fn ready(mut self, words: &'static str) -> Ends {
        self.ready = words;
        self
    }

    /// Starts the server, and waits until one of its ids listens.
    pub fn start_server(&self, lab: &Lab) -> Result<Proc> {
        let words: Vec<_> = self.server.iter().map(String::as_str).collect();
        let mut server = lab.start(lab.server(), self.who, &[], &words)?;
        let comm = format!("comm {} ", self.server.first().map_or("", String::as_str));
        let ready = server.wait_until(LISTENS_WITHIN, |_| {
            let ids = lab.weft(lab.server(), Who::Root, &[], &["resource", "show", "cm_id"]);
            ids.is_ok_and(|ids| ids.text.lines().any(|id| id.contains(&comm) && id.contains(self.ready)))
        });
        if !ready {
            let state = if server.running() { "does not listen" } else { "ended at once" };
            bail!("the server {state}:\n      {}", server.wait(Duration::ZERO).report());
        }
        Ok(server)
    }

    /// Starts the client.
    pub fn start_client(&self, lab: &Lab) -> Result<Proc> {
        let words: Vec<_> = self.client.iter().map(String::as_str).collect();
        lab.start(lab.client(), self.who, &[], &words)
    }

    /// Runs a client against a server that serves until it is ended, and ends it: what the client wrote.
    pub fn against_a_lasting_server(&self, lab: &Lab) -> Result<String> {
        let server = self.start_server(lab)?;
        let client = self.start_client(lab)?.wait(self.limit);
        let server = server.kill();
        let report = format!("server: {}", server.report());
        Ok(client.success().context(report)?.text)
    }

    /// Runs both to success, then hands both texts to `judge`: the client's, the server's.
    pub fn judged(&self, lab: &Lab, judge: impl Fn(&str, &str) -> Result<()>) -> Result<()> {
        let server = self.start_server(lab)?;
        let client = self.start_client(lab)?.wait(self.limit);
        let server = server.wait(if client.ok() { Duration::from_secs(15) } else { Duration::from_secs(1) });
        let report = || format!("server: {}\n      client: {}", server.report(), client.report());
        if !(client.ok() && server.ok()) {
            bail!("{}", report());
        }
        judge(&client.text, &server.text).with_context(report)
    }
}
