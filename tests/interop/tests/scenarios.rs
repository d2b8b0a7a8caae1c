//! The scenarios that Weft brings (`weft fault scenarios`), each with a program that survives it or ends as its authors say.

#[path = "scenarios/events.rs"]
mod events;

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weft_interop::pair::DEFAULT_PORT;
use weft_interop::{Device, Ended, Fabric, Lab, Shape, Side, Table, Who, device, skip};

const NEEDED: &[&str] =
    &["ip", "cc", "mpicc.openmpi", "mpirun.openmpi", "ib_write_bw", "rping", "rstream", "ucx_perftest"];
const WITHIN: Duration = Duration::from_secs(60);
const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");

/// Two rails: devices with a network each.
struct Rails {
    lab: Lab,
    devices: Vec<Device>,
}

const SECOND_ADDRESS: &str = "10.78.0.1";

impl Rails {
    fn new() -> Result<Rails> {
        let lab = Lab::new(Shape::One)?;
        let netns = &lab.client().netns;
        lab.ip(&format!("-n {netns} link add eth1 type veth peer name cable1"))?;
        lab.ip(&format!("-n {netns} addr add {SECOND_ADDRESS}/24 dev eth1"))?;
        lab.ip(&format!("-n {netns} link set eth1 up addrgenmode none"))?;
        lab.ip(&format!("-n {netns} link set cable1 up addrgenmode none"))?;
        let info = lab.run(lab.client(), Who::Root, &[], &["ibv_devinfo", "-v"])?.success()?.text;
        let Side { v4, v6, .. } = lab.client();
        let found = [device::find(&info, v4, v6), device::find(&info, SECOND_ADDRESS, "fd78::1")];
        let devices = found.into_iter().collect::<Option<Vec<_>>>().with_context(|| format!("two devices\n{info}"))?;
        Ok(Rails { lab, devices })
    }

    /// Starts a server, unless there are no words for it, and the client under a scenario.
    fn play(&self, scenario: &[&str], server: &[&str], client: &[&str], env: &[(&str, &str)]) -> Result<Ended> {
        let side = self.lab.client();
        let mut running = None;
        if !server.is_empty() {
            let wire = [env, &[("WEFT_LOOPBACK", "wire")]].concat();
            let mut started = self.lab.start(side, Who::Root, &wire, server)?;
            let port = match server[0] {
                "rping" => 7174,
                "rstream" => 7471,
                "ucx_perftest" => 13_337,
                _ => DEFAULT_PORT,
            };
            ensure!(started.wait_until(WITHIN, |_| self.listens(port)), "{}", started.text());
            running = Some(started);
        }
        let words = [&["fault", "run"], scenario, &["--"], client].concat();
        let ended = self.lab.weft(side, Who::Root, env, &words);
        if let Some(server) = running {
            server.kill();
        }
        ended
    }

    /// Whether a program listens at a port of TCP, or of the RDMA CM, which the kernel does not show.
    fn listens(&self, port: u16) -> bool {
        let shows = |words: &[&str]| {
            let ended = self.lab.run(self.lab.client(), Who::Root, &[], words);
            ended.is_ok_and(|ended| ended.text.split([':', ' ', '\n']).any(|word| word == port.to_string()))
        };
        shows(&["ss", "-Htln"]) || shows(&["rdma", "resource", "show", "cm_id"])
    }

    fn compile(&self, compiler: &str, source: &str, libraries: &[&str]) -> Result<String> {
        let name = source.rsplit('/').next().unwrap_or(source).trim_end_matches(".c");
        let program = self.lab.file(name).to_str().context("the lab's path is not UTF-8")?.to_owned();
        let mut cc = Command::new(compiler);
        cc.args(["-Wall", "-Werror", "-O1", "-o", &program, &format!("{DIRECTORY}/{source}")]).args(libraries);
        ensure!(cc.status()?.success(), "{source} does not compile");
        Ok(program)
    }
}

/// Texts of rping's when a peer is dead.
const RPING_ENDS: &str = "cq completion failed status 12|client DISCONNECT EVENT";

/// Debian's programs: scenario, server, client (its address and device follow), whether it survives if that is certain, and text
/// that it prints (one of several).
const DEBIAN: &[(&str, &str, &str, Option<bool>, &str)] = &[
    ("bad-cable", "ib_read_bw -n 200", "ib_read_bw -n 200", Some(true), "200"),
    ("bad-cable", "rstream -S 4096 -C 200", "rstream -S 4096 -C 200 -s ADDRESS", Some(true), "4k"),
    ("lost-acks", "ib_send_bw -n 500", "ib_send_bw -n 500", Some(true), "500"),
    ("lost-acks", "rping -s -C 200", "rping -c -C 200 -V -a ADDRESS", Some(true), ""),
    ("long-way", "ib_write_lat -n 20", "ib_write_lat -n 20", Some(true), "20"),
    ("slow-peer", "ib_read_lat -n 20", "ib_read_lat -n 20", Some(true), "20"),
    ("outage", "ib_write_bw -D 3", "ib_write_bw -D 3", Some(true), "65536"),
    ("dead-peer", "ib_write_bw -D 30", "ib_write_bw -D 30", Some(false), "Failed status 12"),
    // rping tells of the failure. Which side's request fails first is chance: the other side is disconnected, and ends with
    // status 0 or not, depending on where it is.
    ("dead-peer", "rping -s -C 1000000", "rping -c -C 1000000 -a ADDRESS", None, RPING_ENDS),
    ("retry-exceeded", "ib_send_bw -n 1000", "ib_send_bw -n 1000", Some(false), "Failed status 12"),
    ("receiver-not-ready", "ib_send_bw -n 1000", "ib_send_bw -n 1000", Some(false), "Failed status 13"),
];

#[test]
fn programs_of_debian() {
    if !skip::have("programs_of_debian", NEEDED) {
        return;
    }
    let mut table = Table::new("scenarios, Debian's programs");
    let rails = Rails::new().expect("two rails");
    let (v4, name) = (rails.lab.client().v4, rails.devices[0].name.as_str());
    for (scenario, server, client, survives, text) in DEBIAN {
        table.case(&format!("{scenario}: {client}"), || {
            let client = client.replace("ADDRESS", v4);
            let (mut server, mut client): (Vec<&str>, Vec<&str>) =
                (server.split_whitespace().collect(), client.split_whitespace().collect());
            if server[0].starts_with("ib_") {
                server.extend(["-d", name]);
                client.extend(["-d", name, v4]);
            }
            let ended = rails.play(&[scenario], &server, &client, &[])?;
            let tells = text.split('|').any(|text| ended.text.contains(text));
            ensure!(survives.is_none_or(|survives| ended.ok() == survives) && tells, "{}", ended.report());
            ensure!(ended.text.contains(" s  fault "), "{}", ended.report());
            Ok(())
        });
    }
    for (scenario, tool, least) in [("long-way", "ib_write_lat", 20_000.0), ("slow-peer", "ib_read_lat", 15_000.0)] {
        table.case(&format!("{scenario}: {tool} measures it"), || {
            let server = [tool, "-n", "20", "-d", name];
            let ended = rails.play(&[scenario], &server, &[&server[..], &[v4]].concat(), &[])?.success()?;
            let row = ended.text.lines().find(|line| line.split_whitespace().take(2).eq(["2", "20"]));
            let typical = row.and_then(|row| row.split_whitespace().nth(4)?.parse::<f64>().ok());
            ensure!(typical.is_some_and(|typical| typical >= least), "{}", ended.report());
            Ok(())
        });
    }
    table.finish();
}

#[test]
fn a_lost_rail() {
    if !skip::have("a_lost_rail", NEEDED) {
        return;
    }
    let mut table = Table::new("scenarios, a lost rail");
    let rails = Rails::new().expect("two rails");
    let (first, second) = (&rails.devices[0], &rails.devices[1]);
    let lost = [
        "rail-lost",
        "--set",
        &format!("address={}", rails.lab.client().v4),
        "--set",
        &format!("device={}", first.name),
    ];
    table.case("a program that goes on through the other rail", || {
        let program = rails.compile("cc", "scenarios/rails.c", &["-libverbs"])?;
        let gids = [first.gid_v4.to_string(), second.gid_v4.to_string()];
        let client = [&program, "300", "10", &first.name, &gids[0], &second.name, &gids[1]];
        let ended = rails.play(&lost, &[], &client, &[])?.success()?;
        let last = format!("delivered 300 messages, the last through {}", second.name);
        ensure!(ended.text.contains(&last), "{}", ended.report());
        let from_event = format!("rail {}: port error", first.name);
        ensure!(ended.text.contains(&from_event), "{}", ended.report());
        Ok(())
    });
    table.case("ib_write_bw on the other rail", || {
        let words = ["ib_write_bw", "-D", "2", "-d", &second.name];
        rails.play(&lost, &words, &[&words[..], &[SECOND_ADDRESS]].concat(), &[])?.success()?;
        Ok(())
    });
    table.case("ib_write_bw on the lost one", || {
        let words = ["ib_write_bw", "-D", "20", "-d", &first.name];
        let ended = rails.play(&lost, &words, &[&words[..], &[rails.lab.client().v4]].concat(), &[])?;
        ensure!(!ended.ok() && ended.text.contains("Failed status 12"), "{}", ended.report());
        Ok(())
    });
    mpi_and_ucx(&rails, &lost, &mut table);
    table.finish();
}

/// UCX 1.13 has no failover between rails: its authors let it end with an error that names the cause.
fn mpi_and_ucx(rails: &Rails, lost: &[&str], table: &mut Table) {
    let both = format!("{}:1,{}:1", rails.devices[0].name, rails.devices[1].name);
    let other = format!("{}:1", rails.devices[1].name);
    for (case, scenario, devices, survives, text) in [
        ("Open MPI, an outage of both rails", &["outage"][..], &both, true, "rank 1 exchanged"),
        ("Open MPI on both rails", lost, &both, false, "exited on signal 6"),
        ("Open MPI on the other rail", lost, &other, true, "rank 1 exchanged"),
    ] {
        table.case(case, || {
            let program = rails.compile("mpicc.openmpi", "scenarios/exchange.c", &[])?;
            // The faults concern the ranks, and not mpirun.
            let file = scenario_for(&rails.lab, scenario[0], "exchange")?;
            let scenario = [&[file.as_str()], &scenario[1..]].concat();
            let home = rails.lab.file("home").display().to_string();
            std::fs::create_dir_all(&home)?;
            let env = [
                ("WEFT_LOOPBACK", "wire"),
                ("UCX_NET_DEVICES", devices.as_str()),
                ("UCX_TLS", "rc_v,self"),
                ("UCX_RC_VERBS_TIMEOUT", "100ms"),
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                ("HOME", &home),
                ("TMPDIR", &home),
            ];
            let options = "mpirun.openmpi --oversubscribe --mca plm isolated --mca btl self --mca pml ucx -n 2";
            let words: Vec<&str> = options.split(' ').chain([program.as_str(), "4"]).collect();
            let ended = rails.play(&scenario, &[], &words, &env)?;
            ensure!(ended.ok() == survives && ended.text.contains(text), "{}", ended.report());
            ensure!(!ended.text.contains("wrong bytes"), "{}", ended.report());
            Ok(())
        });
    }
    for (scenario, survives) in [("outage", true), ("dead-peer", false)] {
        table.case(&format!("ucx_perftest, {scenario}"), || {
            let env =
                [("UCX_NET_DEVICES", other.as_str()), ("UCX_TLS", "rc_v,self"), ("UCX_RC_VERBS_TIMEOUT", "100ms")];
            let count = if survives { "20000" } else { "1000000" };
            let words = ["ucx_perftest", "-t", "tag_bw", "-s", "65536", "-n", count];
            let ended = rails.play(&[scenario], &words, &[&words[..], &[SECOND_ADDRESS]].concat(), &env)?;
            ensure!(ended.ok() == survives, "{}", ended.report());
            Ok(())
        });
    }
}

/// Writes a scenario of Weft's to a file, with its faults for programs of one name.
fn scenario_for(lab: &Lab, name: &str, command: &str) -> Result<String> {
    let text = lab.weft(lab.client(), Who::Root, &[], &["fault", "scenarios", name])?.success()?.text;
    let file = lab.file(&format!("{name}.toml"));
    std::fs::write(&file, text.replace("\nfault = ", &format!("\ncommand = \"{command}\"\nfault = ")))?;
    Ok(file.to_str().context("the lab's path is not UTF-8")?.to_owned())
}

/// A program that recovers as communication libraries do, from what a device does.
#[test]
fn a_program_that_recovers() {
    if !skip::have("a_program_that_recovers", NEEDED) {
        return;
    }
    let mut table = Table::new("scenarios, a program that recovers");
    let rails = Rails::new().expect("two rails");
    for (scenario, text) in [
        ("flapping-port", "event: port error"),
        ("device-reset", "event: local catastrophic error"),
        ("retry-exceeded", "completion: status 12"),
        ("no-memory", ""),
    ] {
        table.case(scenario, || {
            let program = rails.compile("cc", "injected/retry.c", &["-libverbs"])?;
            let device = &rails.devices[0];
            let client = [&program, &device.name, &device.gid_v4.to_string(), "300", "15"];
            let ended = rails.play(&[scenario], &[], &client, &[])?.success()?;
            ensure!(ended.text.contains("delivered 300 messages") && ended.text.contains(text), "{}", ended.report());
            Ok(())
        });
    }
    table.finish();
}

/// A fabric's cables and nodes, and commands of the shell.
#[test]
fn what_happens_to_a_fabric() {
    if !skip::have("what_happens_to_a_fabric", NEEDED) {
        return;
    }
    let mut table = Table::new("scenarios of a fabric");
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::managed(&lab, &["--fat-tree", "4,2"]).expect("a fabric");
    table.case("cable-cut: ib_write_bw between two leaves", || {
        let mut server = lab.start_line(&fabric.words("node3", &["ib_write_bw", "-D", "6", "-u", "18"])?, &[])?;
        ensure!(server.wait_listening(DEFAULT_PORT, WITHIN), "{}", server.text());
        let client = fabric.words("node1", &["ib_write_bw", "-D", "6", "-u", "18", "node3"])?;
        let client = lab.start_line(&client, &[])?;
        let ended = fabric.try_weft(&["fault", "run", "cable-cut", "--set", "cable=leaf1:3"])?.success()?;
        ensure!(ended.text.contains("cut leaf1:3") && ended.text.contains("join leaf1:3"), "{}", ended.report());
        let client = client.wait(WITHIN);
        ensure!(client.ok(), "{}\n{}", client.report(), server.kill().report());
        Ok(())
    });
    table.case("commands run, and one that fails ends the scenario", || {
        let file = lab.file("commands.toml");
        let place = file.to_str().context("the lab's path is not UTF-8")?;
        std::fs::write(&file, "[[step]]\nrun = \"echo first\"\n[[step]]\nat = \"100ms\"\nrun = \"exit 3\"\n")?;
        let ended = fabric.try_weft(&["fault", "run", place])?;
        ensure!(!ended.ok() && ended.text.contains("first\n"), "{}", ended.report());
        ensure!(ended.text.contains("step 2 (run exit 3): it failed (exit status: 3)"), "{}", ended.report());
        Ok(())
    });
    table.finish();
}
