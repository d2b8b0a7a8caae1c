//! The bare UDP ping-pong within the guest, in the same namespaces as ours. No polling program can be faster by
//! packets, whatever its protocol costs; Linux's rxe runs in the kernel instead.

use super::cores::pinned;
use super::guest::{GuestRoom, LIMIT, LISTENS_WITHIN, words_of};
use super::peers::udp_pong::PORT;
use super::program::{Program, number_before, words};
use super::room::Room;
use super::unit::Unit;
use anyhow::{Context, Result, bail};

/// Path of this program in the guest.
pub const OURSELVES: &str = "/xtask";

/// The ping-pong.
#[derive(Clone, Copy, Debug)]
pub struct PongInGuest {
    pub payload: u64,
    pub count: u64,
}

impl PongInGuest {
    fn words(&self, server: bool) -> Vec<String> {
        let (netns, client) = if server { ("b", "") } else { ("a", "--client ") };
        let line = format!("{OURSELVES} bench-peer udp-pong {client}10.1.0.2:{PORT}");
        let more = if server { String::new() } else { format!(" --payload {} --count {}", self.payload, self.count) };
        let line = pinned(Some(usize::from(server)), &words(&(line + &more)));
        words(&format!("ip netns exec {netns}")).into_iter().chain(line).collect()
    }

    fn play(&self, room: &GuestRoom) -> Result<f64> {
        let server = room.start(&self.words(true));
        let bound = format!(":{PORT:04X} ");
        let ask = words("ip netns exec b cat /proc/net/udp");
        if !server.wait_answer(LISTENS_WITHIN, &words_of(&ask), |text| text.contains(&bound)) {
            bail!("the answering end in the guest does not listen: {}", server.kill().report());
        }
        let client = room.start(&self.words(false)).wait(LIMIT);
        let server = server.kill();
        let client = client.success().with_context(|| format!("its other end: {}", server.report()))?;
        number_before(&client.text, "us").with_context(|| format!("no result: {}", client.report()))
    }
}

impl Program for PongInGuest {
    fn name(&self) -> String {
        "bare UDP, polling".to_owned()
    }

    fn command(&self, _seconds: u32) -> String {
        let Self { payload, count } = self;
        format!("xtask bench-peer udp-pong --client SERVER:{PORT} --payload {payload} --count {count}")
    }

    fn unit(&self) -> Unit {
        Unit::Microseconds
    }

    fn measure(&self, room: &Room) -> Result<f64> {
        self.play(room.guest()?)
    }
}
