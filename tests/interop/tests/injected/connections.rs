//! Connections that fail: by an event of the connection manager, or by the errno of a call.

use std::time::Instant;

use anyhow::{Result, ensure};
use weft_interop::{Lab, Shape, Table, Who, skip};

use super::{NEEDED, WITHIN, compile_source};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/injected/connect.c");
const PORT: &str = "7174";

/// Failures that a client survives, and the lines that it prints of them.
const SURVIVED: &[(&str, &[&str])] = &[
    ("", &[]),
    ("cm=REJECTED,count=2", &["RDMA_CM_EVENT_REJECTED 28"; 2]),
    ("cm=UNREACHABLE,count=1", &["RDMA_CM_EVENT_UNREACHABLE -110"]),
    ("cm=RDMA_CM_EVENT_CONNECT_ERROR,count=1", &["RDMA_CM_EVENT_CONNECT_ERROR -5"]),
    ("cm=ADDR_ERROR,count=2", &["RDMA_CM_EVENT_ADDR_ERROR -110"; 2]),
    ("cm=ROUTE_ERROR,count=2", &["RDMA_CM_EVENT_ROUTE_ERROR -110"; 2]),
    (
        "cm=REJECTED,count=1;cm=ADDR_ERROR,from=2,count=1",
        &["RDMA_CM_EVENT_REJECTED 28", "RDMA_CM_EVENT_ADDR_ERROR -110"],
    ),
    ("errno=ENOMEM,call=rdma_create_id,count=1", &["rdma_create_id: Cannot allocate memory"]),
    ("errno=EADDRNOTAVAIL,call=rdma_resolve_addr,count=1", &["rdma_resolve_addr: Cannot assign requested address"]),
    ("errno=EINVAL,call=rdma_resolve_route,count=1", &["rdma_resolve_route: Invalid argument"]),
    ("errno=ENODEV,call=rdma_connect,count=1", &["rdma_connect: No such device"]),
    ("errno=ENOMEM,call=ibv_create_qp,count=1", &["rdma_create_qp: Cannot allocate memory"]),
];

/// Failures on both sides of Debian's programs, and the text that one of them prints.
const ENDED: &[(&str, &str, &str)] = &[
    ("", "cm=REJECTED", "RDMA_CM_EVENT_REJECTED, error 28"),
    ("", "cm=ADDR_ERROR", "RDMA_CM_EVENT_ADDR_ERROR, error -110"),
    ("", "cm=UNREACHABLE", "RDMA_CM_EVENT_UNREACHABLE, error -110"),
    ("errno=EADDRINUSE,call=rdma_bind_addr", "", "rdma_bind_addr: Address already in use"),
    ("errno=ENOMEM,call=rdma_listen", "", "rdma_listen: Cannot allocate memory"),
    ("errno=EINVAL,call=rdma_accept", "", "rdma_accept: Invalid argument"),
];

#[test]
fn a_client_that_connects_again_survives() {
    if !skip::have("a_client_that_connects_again_survives", NEEDED) {
        return;
    }
    let mut table = Table::new("injected failures, connections");
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    let program = compile_source(&lab, SOURCE, "-lrdmacm");
    for (number, (fault, lines)) in SURVIVED.iter().enumerate() {
        table.case(fault, || {
            let program = program.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
            survives(&lab, program, &[("WEFT_FAULT", fault)], Who::BOTH[number % 2], 1, lines)
        });
    }
    table.case("weft fault add, before the program starts", || {
        let program = program.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let fault = |words: &[&str]| lab.weft(lab.client(), Who::Root, &[], &[&["fault"], words].concat())?.success();
        fault(&["add", "cm=REJECTED,count=1", "--command", "connect"])?;
        // The program gets the fault when it opens its device, and may have connected by then.
        let survived = survives(&lab, program, &[], Who::Root, 100, &["RDMA_CM_EVENT_REJECTED 28"]);
        fault(&["del", "--all"])?;
        survived
    });
    table.case("iWARP refuses with its own status", || {
        let program = program.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        for side in lab.sides() {
            let words = ["rdma", "link", "add", "siw0", "type", "siw", "netdev", side.interface];
            lab.run(side, Who::Root, &[], &words)?.success()?;
        }
        let env = [("WEFT_FAULT", "cm=REJECTED,count=1,device=siw0")];
        survives(&lab, program, &env, Who::Root, 1, &["RDMA_CM_EVENT_REJECTED -111"])
    });
    table.finish();
}

/// Runs the client, which makes so many connections, against a server that takes connections until it is ended.
fn survives(lab: &Lab, program: &str, env: &[(&str, &str)], who: Who, connections: u32, lines: &[&str]) -> Result<()> {
    let server = lab.start(lab.server(), who, &[], &["rping", "-s", "-P", "-p", PORT])?;
    wait_for_listener(lab)?;
    let client = lab.run(lab.client(), who, env, &[program, lab.server().v4, PORT, "5", &connections.to_string()]);
    let server = server.kill();
    let client = client?;
    ensure!(
        client.ok() && client.text.contains(&format!("{connections} connected\n")),
        "{}{}",
        client.report(),
        server.report()
    );
    let seen: Vec<_> = client.text.lines().filter_map(|line| line.strip_prefix("failure: ")).collect();
    ensure!(seen == lines, "{lines:?} expected\n{}", client.report());
    Ok(())
}

/// Waits until a program listens on the server's side.
fn wait_for_listener(lab: &Lab) -> Result<()> {
    let until = Instant::now() + WITHIN;
    loop {
        let ids = lab.run(lab.server(), Who::Root, &[], &["rdma", "resource", "show", "cm_id"])?.success()?;
        if ids.text.contains("state LISTEN") {
            return Ok(());
        }
        ensure!(Instant::now() < until, "the server does not listen: {}", ids.report());
    }
}

#[test]
fn programs_end_when_they_cannot_connect() {
    if !skip::have("programs_end_when_they_cannot_connect", NEEDED) {
        return;
    }
    let mut table = Table::new("injected failures, connections of Debian's programs");
    let lab = Lab::new(Shape::Two { mtu: 1500 }).expect("a lab");
    for (of_server, of_client, text) in ENDED {
        table.case(&format!("server \"{of_server}\" client \"{of_client}\""), || {
            let words = ["rping", "-s", "-C", "5"];
            let mut server = lab.start(lab.server(), Who::Root, &[("WEFT_FAULT", of_server)], &words)?;
            if !["rdma_bind_addr", "rdma_listen"].iter().any(|call| of_server.contains(call)) {
                wait_for_listener(&lab)?;
            }
            let words = ["rping", "-c", "-C", "5", "-a", lab.server().v4];
            let client = lab.run(lab.client(), Who::Root, &[("WEFT_FAULT", of_client)], &words)?;
            let is_told = of_server.is_empty() || server.wait_until(WITHIN, |proc| proc.text().contains(text));
            let server = server.kill();
            let told = if of_server.is_empty() { &client } else { &server };
            ensure!(is_told && !client.ok() && told.text.contains(text), "{}{}", client.report(), server.report());
            Ok(())
        });
    }
    table.case("perftest resolves an address again", || {
        let words = ["ib_send_bw", "-R", "-F", "-n", "500"];
        let server = lab.start(lab.server(), Who::Root, &[], &words)?;
        wait_for_listener(&lab)?;
        let env = [("WEFT_FAULT", "cm=ADDR_ERROR,count=2"), ("WEFT_TRACE", "stderr,fault")];
        let client = lab.run(lab.client(), Who::Root, &env, &[&words[..], &[lab.server().v4]].concat())?;
        let server = server.wait(WITHIN);
        ensure!(client.ok() && server.ok(), "{}{}", client.report(), server.report());
        ensure!(client.text.matches("cm=ADDR_ERROR call=rdma_resolve_addr").count() == 2, "{}", client.report());
        Ok(())
    });
    table.finish();
}
