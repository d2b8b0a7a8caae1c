//! A server that listens with the connection manager, and its client.

use crate::{Lab, Proc, Who};
use anyhow::{Context, Result, bail};
use std::time::Duration;

/// Time limit for a server to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(15);

/// Whether the installed cmtime is that of rdma-core before version 50: its server serves any number of clients and ends
/// with none. Since then both ends count the connections, meet over TCP and IPv4 before each step, and end.
pub fn lasting_cmtime() -> bool {
    let usage = std::process::Command::new("cmtime").arg("-x").output();
    usage.is_ok_and(|usage| !String::from_utf8_lossy(&usage.stdout).contains("num_threads"))
}

/// A server and a client to run.
#[derive(Clone, Debug)]
pub struct Ends {
    /// Name of the server in `weft resource`.
    comm: String,
    server: Vec<String>,
    client: Vec<String>,
    who: Who,
    limit: Duration,
    ready: &'static str,
}

impl Ends {
    /// Runs `tool ARGS` at both ends.
    pub fn new(tool: &str, args: &str) -> Ends {
        Ends::two(&format!("{tool} {args}"), &format!("{tool} {args}"))
    }

    /// Runs a different tool at each end.
    pub fn two(server: &str, client: &str) -> Ends {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let (who, limit) = (Who::Root, Duration::from_secs(40));
        let comm = words(server).into_iter().next().unwrap_or_default();
        Ends { comm, server: words(server), client: words(client), who, limit, ready: "state LISTEN" }
    }

    /// Runs cmtime with this many connections at once to `address`, timed step by step. An IPv6 address needs the
    /// [`lasting_cmtime`].
    pub fn cmtime(count: u32, address: &str) -> Ends {
        let ends = Ends::new("cmtime", &format!("-c {count}")).each(&format!("-b {address}"), &format!("-s {address}"));
        // The newer one repeats its test with made-up queue pair numbers. If both ends have the same numbers and the
        // same adapter, the connection manager takes the replies for stale ones.
        if lasting_cmtime() { ends } else { ends.each("-q 500000", "") }
    }

    /// Prepends a wrapper to each command.
    #[must_use]
    pub fn under(
        mut self,
        server: impl Fn(&[String]) -> Vec<String>,
        client: impl Fn(&[String]) -> Vec<String>,
    ) -> Ends {
        self.server = server(&self.server);
        self.client = client(&self.client);
        self
    }

    /// Appends arguments to each command line.
    #[must_use]
    pub fn each(mut self, server: &str, client: &str) -> Ends {
        self.server.extend(server.split_whitespace().map(str::to_owned));
        self.client.extend(client.split_whitespace().map(str::to_owned));
        self
    }

    /// Sets the server's name in `weft resource`, where it is not the command's first word.
    #[must_use]
    pub fn named(mut self, comm: &str) -> Ends {
        self.comm = comm.to_owned();
        self
    }

    /// Runs both as `who`.
    #[must_use]
    pub fn who(mut self, who: Who) -> Ends {
        self.who = who;
        self
    }

    /// Sets the words of `weft resource` that show that the server is ready, instead of listening.
    #[must_use]
    pub fn ready(mut self, words: &'static str) -> Ends {
        self.ready = words;
        self
    }

    /// Starts the server, and waits until one of its ids listens.
    pub fn start_server(&self, lab: &Lab) -> Result<Proc> {
        let words: Vec<_> = self.server.iter().map(String::as_str).collect();
        let mut server = lab.start(lab.server(), self.who, &[], &words)?;
        let comm = format!("comm {} ", self.comm);
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

    /// Runs a client against a server that does not end by itself, then kills the server. Returns the client's output.
    pub fn against_a_lasting_server(&self, lab: &Lab) -> Result<String> {
        let server = self.start_server(lab)?;
        let client = self.start_client(lab)?.wait(self.limit);
        let server = server.kill();
        let report = format!("server: {}", server.report());
        Ok(client.success().context(report)?.text)
    }

    /// Runs both to success, then passes both outputs to `judge`: the client's, the server's.
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

/// Returns how long the connections of `cmtime` took, all steps together. Its server does not end by itself.
pub fn cmtime(lab: &Lab, ends: &Ends) -> Result<Duration> {
    let text = ends.against_a_lasting_server(lab)?;
    total(&text).with_context(|| format!("a time is missing:\n{text}"))
}

/// Returns the sum of the steps in cmtime's (first) table: milliseconds after a colon, or, in the newer one, microseconds
/// in the second column.
fn total(table: &str) -> Option<Duration> {
    const STEPS: [&str; 7] =
        ["create id", "resolve addr", "resolve route", "create qp", "connect", "disconnect", "destroy"];
    let took = |step: &str| {
        table.lines().find_map(|line| {
            let rest = line.strip_prefix("cm ").unwrap_or(line).strip_prefix(step)?;
            if let Some((_, columns)) = rest.split_once(':') {
                return columns.split_whitespace().next()?.parse::<f64>().ok();
            }
            let columns: Vec<f64> = rest.split_whitespace().filter_map(|column| column.parse().ok()).collect();
            (columns.len() == 6).then(|| columns[1] / 1e3)
        })
    };
    let milliseconds: f64 = STEPS.iter().map(|step| took(step)).sum::<Option<f64>>()?;
    Duration::try_from_secs_f64(milliseconds / 1e3).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
step              us/conn    sum(us)    max(us)    min(us)
create id    :       4.64       2.03       8.52       1.11
bind addr    :       0.00       0.00       0.00       0.00
resolve addr :     100.00     100.00     115.69      50.28
resolve route:      50.00      50.00      54.97      46.90
create qp    :      20.00      20.00      24.21       9.44
connect      :     400.00     400.00     417.72     104.46
disconnect   :      20.00      20.00     106.04      21.57
destroy      :       0.36      10.00      11.43       5.17
";

    const NEWER_TABLE: &str = "\
step             avg/iter  total(us)    us/conn    sum(us)    max(us)    min(us)
full connect          927      46378          0          0      42533      26127
create id              76       3807         76       3804       1870          5
bind addr               0          0          0          0          0          0
resolve addr          196       9807       1158      57940       3671        716
resolve route          29       1499        327      16397        502         33
create qp               6        326          1         96         22          0
cm connect            603      30173      15877     793899      21917       9099
establish               0          0         53       2665        340         10
disconnect            135       6793        135       6756        416         11
destroy id             50       2523         50       2523        175         11
destroy qp              1         63          1         63         11          0
";

    #[test]
    fn the_steps_are_summed() {
        assert_eq!(total(TABLE), Some(Duration::from_millis(595)));
        assert_eq!(total(NEWER_TABLE), Some(Duration::from_micros(54_928)));
        assert_eq!(total("create id    :       4.64\n"), None);
    }
}
