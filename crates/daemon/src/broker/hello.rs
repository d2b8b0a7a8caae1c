//! From bytes to hellos and requests.

use std::os::fd::OwnedFd;
use std::time::Instant;

use weft_ipc::{ClientFrame, Hello, HelloStatus, PROTOCOL_VERSION, Purpose, decode};
use weft_link::FaultPlan;

use super::call::{Call, Outcome};
use super::sessions::Standing;
use super::{Attach, Broker, Handled};
use crate::host::Host;
use crate::slots::ClientId;

impl Broker {
    /// Handles a message of a client. A malformed one ends the connection: nothing after it could be trusted.
    pub fn handle_message(
        &mut self,
        now: Instant,
        id: ClientId,
        bytes: &[u8],
        fds: &[OwnedFd],
        host: &mut impl Host,
    ) -> Handled {
        match self.shared.sessions.get_mut(id).map(|client| &mut client.standing) {
            None | Some(Standing::Leaving) => return Handled::Done,
            Some(Standing::New(over)) => {
                let over = over.take();
                self.handle_hello(id, bytes, over);
                return Handled::Done;
            }
            Some(Standing::Session) => {}
        }
        let Ok(ClientFrame { id: number, request }) = decode(bytes) else {
            self.shared.sessions.close(id);
            return Handled::Done;
        };
        match self.handle_request(request, Call { now, id, fds, host }) {
            Ok(Outcome::Deferred) => return Handled::Deferred,
            Ok(Outcome::NoReply) => {}
            Ok(Outcome::Reply(response, attach)) => self.shared.sessions.reply(id, number, Ok(*response), attach),
            Err(refusal) => self.shared.sessions.reply(id, number, Err(refusal), Attach::default()),
        }
        Handled::Done
    }

    fn handle_hello(&mut self, id: ClientId, bytes: &[u8], over_quota: Option<String>) {
        let shared = &mut self.shared;
        let Some(hello) = Hello::decode(bytes) else { return shared.sessions.close(id) };
        if hello.purpose == Purpose::Stop {
            if shared.is_trusted(shared.sessions.uid(id)) {
                shared.sessions.greet(id, HelloStatus::Stopping, "");
                shared.sessions.stop();
            } else {
                let text = format!("only root and user {}, who runs the daemon, may end it", shared.config.uid);
                shared.sessions.greet(id, HelloStatus::Refused, &text);
            }
            return shared.sessions.close(id);
        }
        if hello.protocol != PROTOCOL_VERSION {
            let text = format!(
                "this weft daemon speaks protocol {PROTOCOL_VERSION}, the program's library speaks {}: end the \
                 daemon with `weft daemon --stop` once the programs that use it are done, then run the program again",
                hello.protocol
            );
            shared.sessions.greet(id, HelloStatus::OtherVersion, &text);
            return shared.sessions.close(id);
        }
        if let Some(text) = over_quota {
            shared.sessions.greet(id, HelloStatus::Refused, &text);
            return shared.sessions.close(id);
        }
        let named = if hello.host.is_empty() { Ok(String::new()) } else { shared.host_called(&hello.host) };
        let virtual_host = match named {
            Ok(name) => name,
            Err(text) => {
                shared.sessions.greet(id, HelloStatus::NoHost, &text);
                return shared.sessions.close(id);
            }
        };
        let Some(client) = shared.sessions.get_mut(id) else { return };
        client.program = hello.program;
        client.host = virtual_host;
        // A program whose faults do not parse reports that itself.
        if let Ok(plan) = FaultPlan::parse(&hello.fault) {
            (client.faults, client.fault_text) = (plan.packets, hello.fault);
        }
        client.standing = Standing::Session;
        shared.sessions.greet(id, HelloStatus::Welcome, "");
    }
}
