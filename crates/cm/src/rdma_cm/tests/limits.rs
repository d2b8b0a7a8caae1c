//! Memory limits of the service per process, per user and per slow program.

use super::lab::{Lab, at};
use crate::rdma_cm::errno::*;
use crate::rdma_cm::limits::*;
use crate::rdma_cm::*;

#[test]
fn ids_of_a_process_and_of_a_user_are_bounded() {
    let mut lab = Lab::new();
    let root = lab.program(0);
    let create = |program: super::lab::Program| Command::CreateId {
        channel: program.channel.0,
        port_space: PortSpace::Tcp,
        qp_type: 2,
        cookie: 1,
    };
    for _ in 0..IDS_PER_CLIENT_MAX {
        lab.tcp(root);
    }
    assert_eq!(lab.command(root, create(root)), Err(ENOMEM));
    let users: Vec<_> = (0..=IDS_PER_USER_MAX / IDS_PER_CLIENT_MAX).map(|_| lab.program_of(0, 1000)).collect();
    for user in &users[..users.len() - 1] {
        for _ in 0..IDS_PER_CLIENT_MAX {
            lab.tcp(*user);
        }
    }
    let last = users[users.len() - 1];
    assert_eq!(lab.command(last, create(last)), Err(ENOMEM));
    lab.hosts[0].service.close_client(lab.now, users[0].client);
    lab.tcp(last);
}

#[test]
fn events_that_a_program_writes_and_does_not_read_are_bounded() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    let id = lab.tcp(p);
    lab.hosts[0].service.set_channel_ready(p.channel, false);
    let write = || Command::WriteEvent { id, event: EventKind::User as u32, status: 0, arg: 1 };
    for _ in 0..WRITTEN_EVENTS_PER_ID_MAX {
        assert_eq!(lab.command(p, write()), Ok(Reply::Done));
    }
    assert_eq!(lab.command(p, write()), Err(ENOMEM));
}

#[test]
fn channels_of_a_process_are_bounded() {
    let mut lab = Lab::new();
    let p = lab.program(0);
    for _ in 1..CHANNELS_PER_CLIENT_MAX {
        lab.hosts[0].service.open_channel(p.client).unwrap();
    }
    assert_eq!(lab.hosts[0].service.open_channel(p.client), Err(EMFILE));
    lab.hosts[0].service.close_channel(lab.now, p.channel);
    lab.hosts[0].service.open_channel(p.client).unwrap();
}

#[test]
fn a_list_comes_in_pages_and_shows_users_their_own() {
    let mut lab = Lab::new();
    let (user, other) = (lab.program_of(0, 1000), lab.program_of(0, 1001));
    let mine: Vec<IdNumber> = (0..IDS_PER_PAGE + 1).map(|_| lab.tcp(user)).collect();
    lab.tcp(other);
    let mut seen = Vec::new();
    loop {
        let after = seen.last().copied().unwrap_or(0);
        let Ok(Reply::Ids { ids, more }) = lab.command(user, Command::ListIds { after }) else { panic!() };
        assert!(ids.len() <= IDS_PER_PAGE);
        seen.extend(ids.iter().map(|id| id.id));
        if !more {
            break;
        }
    }
    assert_eq!(seen, mine);
}

#[test]
fn another_s_id_is_none() {
    let mut lab = Lab::new();
    let (p, q) = (lab.program(0), lab.program(0));
    let id = lab.tcp(p);
    assert_eq!(lab.command(q, Command::DestroyId { id }), Err(ENOENT));
    assert_eq!(lab.command(q, Command::Bind { id, addr: at("10.0.0.1", 7000) }), Err(ENOENT));
    let (channel, port_space) = (p.channel.0, PortSpace::Tcp);
    let create = Command::CreateId { channel, port_space, qp_type: 2, cookie: 1 };
    assert_eq!(lab.command(q, create), Err(EINVAL), "another's channel");
}

#[test]
fn thousands_of_connections_are_made_and_forgotten() {
    let mut lab = Lab::new();
    let (client, server) = (lab.program(0), lab.program(1));
    lab.listener(server, at("0.0.0.0", 7174), 0);
    for _ in 0..2000 {
        lab.connection(client, server, at("10.0.0.2", 7174));
    }
    assert_eq!((lab.ids(0), lab.ids(1)), (2000, 2001));
    lab.hosts[0].service.close_client(lab.now, client.client);
    lab.hosts[1].service.close_client(lab.now, server.client);
    assert!(lab.is_clean(0) && lab.is_clean(1));
}
