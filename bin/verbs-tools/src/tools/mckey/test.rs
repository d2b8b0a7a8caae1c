//! Members of a group: all of them send, or all receive.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use libc::{AI_ADDRCONFIG, AI_V4MAPPED};
use weft_abi_types::{
    RDMA_CM_EVENT_ADDR_CHANGE, RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_MULTICAST_ERROR,
    RDMA_CM_EVENT_MULTICAST_JOIN, RDMA_CM_EVENT_ROUTE_ERROR, RDMA_MC_JOIN_FLAG_FULLMEMBER,
    RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
};

use super::options::Options;
use crate::cm_tools::{Datagrams, perror};
use crate::outln;
use weft_client::rdmacm::{CmId, Event, EventChannel, IdKey, SockAddr, UdParam, lookup, readable};

/// Timeout for resolving an address, in milliseconds.
const RESOLVE_MS: i32 = 2000;
/// Time for the switches to learn of new members.
const SETTLES: Duration = Duration::from_secs(3);

/// All members. Errors are exit statuses.
pub struct Test<'a> {
    options: &'a Options,
    nodes: Vec<Datagrams>,
    by_id: BTreeMap<IdKey, usize>,
    connects_left: usize,
    group: Option<SockAddr>,
    channel: EventChannel,
}

impl<'a> Test<'a> {
    /// Creates an id for each member.
    pub fn new(options: &'a Options, channel: EventChannel) -> Result<Test<'a>, i32> {
        let connects_left = options.connections;
        let mut test = Test { options, nodes: Vec::new(), by_id: BTreeMap::new(), connects_left, group: None, channel };
        for index in 0..options.connections {
            let id = CmId::new(&test.channel, options.port_space).map_err(|_| -1)?;
            test.by_id.insert(id.key(), index);
            test.nodes.push(Datagrams::new(id));
        }
        Ok(test)
    }

    /// Joins the group, sends or receives, and leaves it.
    pub fn run(&mut self) -> Result<(), i32> {
        outln!("mckey: starting {}", if self.options.sender { "client" } else { "server" });
        let src = self.options.src.as_deref().map(|src| address(Some(src))).transpose()?;
        let group = self.group_address()?;
        self.group = Some(group);
        outln!("mckey: joining");
        for index in 0..self.nodes.len() {
            self.begin(index, src.as_ref(), &group)?;
        }
        let mut result = self.connect_events().and_then(|()| self.transfer());
        // As in the original, the result of leaving replaces the earlier one.
        for id in self.nodes.iter().filter_map(|node| node.id.as_ref()) {
            result = id.leave(&group).map_err(|e| failure("mckey: failure leaving", &e));
        }
        result
    }

    fn group_address(&self) -> Result<SockAddr, i32> {
        let group = self.options.group.as_deref();
        if !self.options.unmapped {
            return address(group);
        }
        let gid = group.and_then(|text| text.parse::<Ipv6Addr>().ok()).unwrap_or(Ipv6Addr::UNSPECIFIED);
        Ok(SockAddr::ib(gid.octets()))
    }

    fn begin(&mut self, index: usize, src: Option<&SockAddr>, group: &SockAddr) -> Result<(), i32> {
        let Some(id) = self.nodes[index].id.clone() else { return Ok(()) };
        if let Some(src) = src {
            id.bind(src).map_err(|e| failure("mckey: addr bind failure", &e))?;
        }
        if self.options.unmapped {
            return self.on_address(index);
        }
        id.resolve_addr(src, group, RESOLVE_MS).map_err(|e| failure("mckey: resolve addr failure", &e))
    }

    fn connect_events(&mut self) -> Result<(), i32> {
        while self.connects_left > 0 {
            let event = self.channel.next().map_err(|_| -1)?;
            let result = self.on_event(&event);
            if result.is_err() {
                self.connects_left = self.connects_left.saturating_sub(1);
            }
            result?;
        }
        Ok(())
    }

    fn on_event(&mut self, event: &Event) -> Result<(), i32> {
        let Some(&index) = self.by_id.get(&event.id) else { return Ok(()) };
        match event.kind {
            RDMA_CM_EVENT_ADDR_RESOLVED => self.on_address(index),
            RDMA_CM_EVENT_MULTICAST_JOIN => event.ud.map_or(Ok(()), |param| self.on_join(index, &param)),
            RDMA_CM_EVENT_ADDR_ERROR | RDMA_CM_EVENT_ROUTE_ERROR | RDMA_CM_EVENT_MULTICAST_ERROR => {
                let name = self.channel.library().event_name(event.kind);
                outln!("mckey: event: {name}, error: {}", event.status);
                if event.status == 0 { Ok(()) } else { Err(event.status) }
            }
            _ => Ok(()),
        }
    }

    fn on_address(&mut self, index: usize) -> Result<(), i32> {
        let node = &mut self.nodes[index];
        node.prepare(self.options.messages)?;
        if !self.options.sender {
            node.post_recvs(self.options.messages)?;
        }
        let flags = match self.options.send_only {
            true => RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
            false => RDMA_MC_JOIN_FLAG_FULLMEMBER,
        };
        let (Some(id), Some(group)) = (&node.id, &self.group) else { return Ok(()) };
        id.join(group, flags).map_err(|e| failure("mckey: failure joining", &e))
    }

    fn on_join(&mut self, index: usize, param: &UdParam) -> Result<(), i32> {
        let attr = &param.ah_attr;
        let dgid = Ipv6Addr::from(param.dgid());
        outln!("mckey: joined dgid: {dgid} mlid 0x{:x} sl {}", attr.dlid, attr.sl);
        self.nodes[index].set_target(param, "mckey")?;
        self.connects_left -= 1;
        Ok(())
    }

    fn transfer(&mut self) -> Result<(), i32> {
        self.settle();
        let messages = self.options.messages;
        if messages.count == 0 {
            return Ok(());
        }
        if self.options.sender {
            outln!("initiating data transfers");
            self.nodes.iter().try_for_each(|node| node.post_sends(messages, false))?;
        } else {
            outln!("receiving data transfers");
            self.nodes.iter_mut().try_for_each(|node| node.complete(messages))?;
        }
        outln!("data transfers complete");
        Ok(())
    }

    /// Waits for the group to settle, and prints its events meanwhile.
    fn settle(&self) {
        let end = Instant::now() + SETTLES;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            if let Ok(ready) = readable(&[self.channel.fd()], Some(left.as_millis() as u32 + 1))
                && ready[0]
                && let Ok(event) = self.channel.next()
                && matches!(event.kind, RDMA_CM_EVENT_MULTICAST_ERROR | RDMA_CM_EVENT_ADDR_CHANGE)
            {
                let name = self.channel.library().event_name(event.kind);
                outln!("mckey: event: {name}, status: {}", event.status);
            }
        }
    }
}

fn address(name: Option<&str>) -> Result<SockAddr, i32> {
    lookup(name, None, AI_V4MAPPED | AI_ADDRCONFIG).map_err(|error| {
        outln!("getaddrinfo failed ({error}) - invalid hostname or IP address");
        error.0
    })
}

/// Prints the error and returns -1, as librdmacm's calls do.
fn failure(what: &str, error: &io::Error) -> i32 {
    perror(what, error);
    -1
}
