//! A server and its client: started in order, awaited, and judged together.

use crate::lab::Lab;
use crate::proc::{Ended, Proc};
use crate::user::Who;
use anyhow::{Context, Result, bail};
use std::time::Duration;

/// Default TCP port of libibverbs' examples and perftest.
pub const DEFAULT_PORT: u16 = 18515;

/// Runs of a pair that ends for a reason outside both ends: perftest cannot measure the processor's clock, or the last
/// acknowledgement was lost on purpose.
pub(crate) const TRIES_MAX: u32 = 4;

/// A server and a client to run.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The server's words; the client's are the same plus the server's address.
    pub server: Vec<String>,
    /// The client's words without the server's address.
    pub client: Vec<String>,
    /// Environment of the server.
    pub server_env: Vec<(String, String)>,
    /// Environment of the client.
    pub client_env: Vec<(String, String)>,
    /// User that the server runs as.
    pub server_who: Who,
    /// User that the client runs as.
    pub client_who: Who,
    /// Time limit of the client.
    pub limit: Duration,
    /// The TCP port on which the server waits for its client.
    pub port: u16,
}

/// Results of both.
#[derive(Debug)]
pub struct Outcome {
    /// Result of the server.
    pub server: Ended,
    /// Result of the client.
    pub client: Ended,
}

impl Pair {
    /// Runs `tool ARGS` on both sides.
    pub fn new(tool: &str, args: &str) -> Pair {
        let words: Vec<_> = std::iter::once(tool).chain(args.split_whitespace()).map(str::to_owned).collect();
        Pair {
            server: words.clone(),
            client: words,
            server_env: Vec::new(),
            client_env: Vec::new(),
            server_who: Who::Root,
            client_who: Who::Root,
            limit: Duration::from_secs(20),
            port: DEFAULT_PORT,
        }
    }

    /// Appends arguments to both command lines.
    #[must_use]
    pub fn both(mut self, args: &str) -> Pair {
        self.server.extend(args.split_whitespace().map(str::to_owned));
        self.client.extend(args.split_whitespace().map(str::to_owned));
        self
    }

    /// Appends different arguments to each command line.
    #[must_use]
    pub fn each(mut self, server: &str, client: &str) -> Pair {
        self.server.extend(server.split_whitespace().map(str::to_owned));
        self.client.extend(client.split_whitespace().map(str::to_owned));
        self
    }

    /// Names the device of each side with `-d`.
    pub fn devices(self, lab: &Lab) -> Result<Pair> {
        let (server, client) = (lab.device(lab.server())?, lab.device(lab.client())?);
        Ok(self.each(&format!("-d {}", server.name), &format!("-d {}", client.name)))
    }

    /// Runs both as `who`.
    #[must_use]
    pub fn who(mut self, who: Who) -> Pair {
        (self.server_who, self.client_who) = (who, who);
        self
    }

    /// Sets a variable in both environments.
    #[must_use]
    pub fn env(mut self, key: &str, value: &str) -> Pair {
        self.server_env.push((key.into(), value.into()));
        self.client_env.push((key.into(), value.into()));
        self
    }

    /// Sets the client's time limit.
    #[must_use]
    pub fn within(mut self, seconds: u64) -> Pair {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Starts the server and waits until it listens.
    pub fn start_server(&self, lab: &Lab) -> Result<Proc> {
        let words: Vec<_> = self.server.iter().map(String::as_str).collect();
        let env: Vec<_> = self.server_env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let mut server = lab.start(lab.server(), self.server_who, &env, &words)?;
        if !server.wait_listening(self.port, Duration::from_secs(15)) {
            let state = if server.running() { "does not listen after 15 s" } else { "ended at once" };
            let ended = server.wait(Duration::ZERO);
            bail!("the server {state}:\n      {}", ended.report());
        }
        Ok(server)
    }

    /// Starts the client.
    pub fn start_client(&self, lab: &Lab) -> Result<Proc> {
        let mut words: Vec<_> = self.client.iter().map(String::as_str).collect();
        words.push(lab.server().v4);
        let env: Vec<_> = self.client_env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        lab.start(lab.client(), self.client_who, &env, &words)
    }

    /// Runs both to their end, whatever the result; again if perftest could not measure the processor's clock.
    pub fn run(&self, lab: &Lab) -> Result<Outcome> {
        let mut tries = 1;
        loop {
            let outcome = self.run_once(lab)?;
            if tries == TRIES_MAX || !outcome.lacks_clock() {
                return Ok(outcome);
            }
            tries += 1;
        }
    }

    fn run_once(&self, lab: &Lab) -> Result<Outcome> {
        let server = self.start_server(lab)?;
        let client = self.start_client(lab)?.wait(self.limit);
        // A server ends right after its client, or never.
        let server = server.wait(if client.ok() { Duration::from_secs(10) } else { Duration::from_secs(1) });
        Ok(Outcome { server, client })
    }

    /// Runs both; both must end with exit status 0.
    pub fn succeed(&self, lab: &Lab) -> Result<Outcome> {
        let outcome = self.run(lab)?;
        if !(outcome.client.ok() && outcome.server.ok()) {
            bail!("{}", outcome.report());
        }
        Ok(outcome)
    }

    /// Runs both to success, then passes both outputs to `judge`.
    pub fn judged(&self, lab: &Lab, judge: impl Fn(&Outcome) -> Result<()>) -> Result<()> {
        let outcome = self.succeed(lab)?;
        judge(&outcome).with_context(|| outcome.report())
    }
}

impl Outcome {
    /// Returns whether perftest gave up because it could not measure the processor's clock, which happens on a busy
    /// machine. It says so itself.
    pub fn lacks_clock(&self) -> bool {
        [&self.server, &self.client].iter().any(|end| !end.ok() && end.text.contains("Correlation coefficient"))
    }

    /// Describes both results.
    pub fn report(&self) -> String {
        format!("server: {}\n      client: {}", self.server.report(), self.client.report())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn ended(status: i32, text: &str) -> Ended {
        let status = Some(ExitStatus::from_raw(status << 8));
        Ended { line: String::new(), status, text: text.to_owned(), took: Duration::ZERO }
    }

    #[test]
    fn a_clock_that_perftest_cannot_measure_excuses_its_failure_and_no_other() {
        let lacks = |server, client| Outcome { server, client }.lacks_clock();
        let clock = "16384 5 187.09Correlation coefficient r^2: 0.826995 < 0.9\n";
        assert!(lacks(ended(1, ""), ended(1, clock)) && lacks(ended(1, clock), ended(1, "")));
        assert!(!lacks(ended(1, "Failed status 12"), ended(1, "")) && !lacks(ended(0, ""), ended(0, clock)));
    }
}
