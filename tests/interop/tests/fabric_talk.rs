//! All hosts of a fabric under Debian's opensm communicate: every host pings every other with management datagrams, and
//! its neighbour in a ring over connected queue pairs with and without a GRH, and by address through the RDMA CM.

use anyhow::{Result, ensure};
use std::time::Duration;
use weft_interop::proc::{Ended, Proc};
use weft_interop::{Fabric, Lab, Shape, Table, skip};

const TOOLS: &[&str] = &["ip", "opensm", "ibping", "ibv_rc_pingpong", "rping", "sh"];

/// Fabrics, their routing engines and their numbers of hosts.
const SHAPES: &[(&[&str], &str, usize)] = &[
    (&["--fat-tree", "8,2", "--hosts", "16"], "ftree", 16),
    (&["--torus", "3x3", "--hosts-per-switch", "1"], "lash", 9),
];

/// Time limit of any of the programs.
const LIMIT: Duration = Duration::from_secs(20);
/// Time limit for a server to be ready.
const SERVES_WITHIN: Duration = Duration::from_secs(10);
/// TCP ports by which the pairs of a ring find each other, one for each pair.
const FIRST_PORT: u16 = 18600;
/// Tries to reach a server that may not listen yet.
const TRIES_MAX: u32 = 25;

#[test]
fn all_hosts_talk_hop_by_hop() {
    if !skip::have("all hosts talk hop by hop", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("all hosts talk hop by hop");
    let fabric = Fabric::hop_by_hop(&lab, &["--fat-tree", "4,2"]).expect("a fabric");
    let _opensm = fabric.opensm("node1", "ftree").expect("a subnet manager");
    let lids = lids(&fabric, 8).expect("LIDs");
    let ring = Ring { lab: &lab, fabric: &fabric, lids };
    table.case("ibv_rc_pingpong", || ring.pingpong("-g 0"));
    table.case("rping", || ring.rping());
    table.finish();
}

#[test]
fn all_hosts_talk() {
    if !skip::have("all hosts talk", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let mut table = Table::new("all hosts talk");
    for (words, engine, hosts) in SHAPES {
        let name = words[0];
        let fabric = Fabric::up(&lab, words).expect("a fabric");
        let _opensm = fabric.opensm("node1", engine).expect("a subnet manager");
        let lids = lids(&fabric, *hosts).expect("LIDs");
        let ring = Ring { lab: &lab, fabric: &fabric, lids };
        table.case(&format!("{name}: ibping, each to all"), || ring.all_ping());
        for options in ["", "-g 0"] {
            table.case(&format!("{name}: ibv_rc_pingpong {options}"), || ring.pingpong(options));
        }
        table.case(&format!("{name}: rping"), || ring.rping());
    }
    table.finish();
}

/// Returns the LIDs of the hosts, node1's first, once all have one.
fn lids(fabric: &Fabric<'_>, hosts: usize) -> Result<Vec<u64>> {
    fabric.wait("all links active", |state| state["links"]["init"] == 0 && state["links"]["armed"] == 0)?;
    let picture: serde_json::Value = serde_json::from_str(&fabric.weft(&["topology", "--format", "json"])?)?;
    let nodes = picture["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |node: &serde_json::Value| node["lids"][0].as_u64().filter(|lid| *lid != 0);
    let lids: Vec<u64> = nodes.iter().filter(|node| node["kind"] == "CA").filter_map(of).collect();
    ensure!(lids.len() == hosts, "{hosts} hosts have the LIDs {lids:?}");
    Ok(lids)
}

/// The hosts of a fabric, each with the next as its neighbour, the last with the first.
struct Ring<'a> {
    lab: &'a Lab,
    fabric: &'a Fabric<'a>,
    lids: Vec<u64>,
}

fn host(place: usize) -> String {
    format!("node{}", place + 1)
}

impl Ring<'_> {
    fn start(&self, place: usize, line: &str) -> Result<Proc> {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.lab.start_line(&self.fabric.words(&host(place), &words)?, &[])
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) % self.lids.len()
    }

    /// Starts a server on every host; then each host pings all the others.
    fn all_ping(&self) -> Result<()> {
        let servers: Vec<Proc> =
            (0..self.lids.len()).map(|place| self.start(place, "ibping -S")).collect::<Result<_>>()?;
        for (place, own) in self.lids.iter().enumerate() {
            let others: Vec<String> = self.lids.iter().filter(|lid| *lid != own).map(u64::to_string).collect();
            // Repeats if the server is not ready yet; in flood mode, to avoid a second's pause after each ping.
            let ask = "for lid in \"$@\"; do n=0; until ibping -f -c 1 -t 200 \"$lid\" | grep ' 0% packet loss'; do \
                       n=$((n + 1)); [ $n -lt 20 ] || exit 1; sleep 0.1; done; done";
            let mut words = vec!["sh", "-c", ask, "sh"];
            words.extend(others.iter().map(String::as_str));
            let ended = self.lab.start_line(&self.fabric.words(&host(place), &words)?, &[])?.wait(LIMIT).success()?;
            let answers = ended.text.matches("1 received, 0% packet loss").count();
            ensure!(answers == others.len(), "{answers} of {} answered: {}", others.len(), ended.report());
        }
        servers.into_iter().for_each(|server| drop(server.kill()));
        Ok(())
    }

    /// Runs a connected pair on each link of the ring.
    fn pingpong(&self, options: &str) -> Result<()> {
        for place in 0..self.lids.len() {
            let port = FIRST_PORT + place as u16;
            let line = format!("ibv_rc_pingpong -c -n 100 -p {port} {options}");
            let mut server = self.start(self.next(place), &line)?;
            ensure!(server.wait_listening(port, SERVES_WITHIN), "it does not listen:\n{}", server.text());
            let client = self.start(place, &format!("{line} {}", host(self.next(place))))?.wait(LIMIT).success()?;
            let server = server.wait(LIMIT).success()?;
            let wanted = format!("remote address: LID {:#06x}", self.lids[self.next(place)]);
            ensure!(client.text.contains(&wanted), "no {wanted:?}: {}", client.report());
            for text in [&client.text, &server.text] {
                ensure!(!text.contains("invalid data"), "wrong bytes arrived:\n{text}");
            }
        }
        Ok(())
    }

    /// Connects by address: the ports have theirs in the order of the description.
    fn rping(&self) -> Result<()> {
        let address = |place: usize| format!("10.0.0.{}", place + 1);
        let serve = |place| self.start(place, &format!("rping -s -a {} -C 3 -v", address(place)));
        let servers: Vec<Proc> = (0..self.lids.len()).map(serve).collect::<Result<_>>()?;
        let line = |place: usize| format!("rping -c -a {} -C 3 -v", address(self.next(place)));
        let clients: Vec<Proc> =
            (0..self.lids.len()).map(|place| self.start(place, &line(place))).collect::<Result<_>>()?;
        for (place, client) in clients.into_iter().enumerate() {
            let ended = self.again(client.wait(LIMIT), place, &line(place))?.success()?;
            ensure!(ended.text.matches("rdma-ping-").count() == 3, "{}", ended.report());
        }
        servers.into_iter().try_for_each(|server| server.wait(LIMIT).success().map(drop))
    }

    /// Runs a client again if its server did not listen yet and rejected it.
    fn again(&self, first: Ended, place: usize, line: &str) -> Result<Ended> {
        let too_early =
            |text: &str| ["REJECTED", "UNREACHABLE", "connect error"].iter().any(|word| text.contains(word));
        let mut ended = first;
        for _ in 0..TRIES_MAX {
            if ended.ok() || !too_early(&ended.text) {
                break;
            }
            std::thread::sleep(Duration::from_millis(200));
            ended = self.start(place, line)?.wait(LIMIT);
        }
        Ok(ended)
    }
}
