//! The daemon of this network namespace, and the port that it must hold.

use weft_ipc::PortHealth;

use crate::commands::doctor::machine::{Daemon, Machine};
use crate::commands::doctor::report::Finding;

/// Release of this command.
const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

const STOP: &str = "`weft daemon --stop` once the programs that use it are done; the next program starts another";

/// Whether a daemon of this version runs for this user.
pub fn daemon(machine: &dyn Machine) -> Vec<Finding> {
    let daemon = machine.daemon();
    let who = match daemon.process {
        Some((pid, user)) => format!("process {pid} of user {user}"),
        None => "an unknown process".to_owned(),
    };
    if let Some(theirs) = daemon.other_protocol {
        let ours = weft_ipc::PROTOCOL_VERSION;
        return vec![Finding::error(
            format!("{who} is a daemon of another version (protocol {theirs}; this command speaks {ours})"),
            STOP,
        )];
    }
    match &daemon.session {
        None => vec![Finding::note("not asked")],
        Some(Err(error)) => vec![without_answer(&daemon, &who, error)],
        Some(Ok(session)) if session.version != OWN_VERSION => vec![Finding::warning(
            format!("{who} is a daemon of version {}; this command is {OWN_VERSION}", session.version),
            STOP,
        )],
        Some(Ok(_)) => vec![of_user(&daemon, machine.user(), &who)],
    }
}

fn without_answer(daemon: &Daemon, who: &str, error: &str) -> Finding {
    match daemon.process {
        // `weft daemon --stop` would wait for its answer, too.
        Some((pid, _)) => Finding::error(
            format!("{who} is the daemon: {error}"),
            format!("`kill -9 {pid}` as that user or root; the next program starts another"),
        ),
        None => Finding::error(error, "`weft daemon --foreground` shows why"),
    }
}

fn of_user(daemon: &Daemon, own: u32, who: &str) -> Finding {
    match daemon.process {
        Some((_, user)) if user != 0 && user != own => Finding::warning(
            format!("{who}: another user's daemon serves you, and shares no pages with your programs"),
            "let root start it first (`weft daemon --foreground &`), or use a network namespace of your own",
        ),
        _ => Finding::well(format!("{who}, version {OWN_VERSION}")),
    }
}

/// UDP port 4791.
pub fn port(machine: &dyn Machine) -> Vec<Finding> {
    let health = machine.daemon().session.and_then(Result::ok).map(|session| session.port);
    let finding = match health {
        Some(PortHealth::Held) => Finding::well("open: the daemon holds it"),
        Some(PortHealth::Recovering) => {
            Finding::note("programs from before the daemon's restart hold it; the daemon takes it over")
        }
        Some(PortHealth::Taken(who)) => taken(machine, &who),
        Some(PortHealth::Unused) | None => match holders(machine) {
            holders if holders.is_empty() => Finding::well("free"),
            // A daemon that does not answer tells nothing about its sockets.
            _ if health.is_none() => Finding::note("in use, and the daemon does not say by whom"),
            _ => taken(machine, "UDP port 4791, the port of RoCE v2, is in use in this network namespace"),
        },
    };
    vec![finding]
}

fn taken(machine: &dyn Machine, why: &str) -> Finding {
    let owners = holders(machine).into_iter().filter_map(|inode| machine.owner_of_socket(inode));
    let owners: Vec<String> = owners.map(|(pid, name)| format!("{name} (process {pid})")).collect();
    let (text, remedy) = if !owners.is_empty() {
        (format!("{why}: {}", owners.join(", ")), "end that program, or run in a network namespace of your own")
    } else if machine.list("/sys/module").iter().any(|module| module == "rdma_rxe") {
        (why.to_owned(), "`modprobe -r rdma_rxe` as root, or run in a network namespace of your own")
    } else {
        (why.to_owned(), "`ss -ulpn sport = 4791` as root shows by whom")
    };
    Finding::error(text, remedy)
}

/// Inodes of the sockets that are bound to the port.
fn holders(machine: &dyn Machine) -> Vec<u64> {
    let tables = ["/proc/self/net/udp", "/proc/self/net/udp6"].map(|path| machine.read(path).unwrap_or_default());
    let holders = tables.iter().flat_map(|table| weft_sys::roce_port::holders_in(table));
    holders.map(|holder| holder.inode).collect()
}
