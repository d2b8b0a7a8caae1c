//! The threads that ask the daemon and the subnet managers, for all pages together: often while a page looks on, seldom
//! otherwise, and never so often that the asking itself takes a noticeable share of a processor.

mod fabric;
mod managers;
mod schedule;

use std::sync::mpsc::Receiver;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

pub use fabric::FabricPoller;
pub use managers::ManagersPoller;

use crate::server::action::Action;

/// A message to a poller.
#[derive(Debug)]
pub enum Command {
    /// A page has come: everything is due.
    Look,
    /// An action, and where its end is reported.
    Act(Action, oneshot::Sender<Result<(), String>>),
}

/// A thread's work.
pub trait Poller {
    /// Does what is due, and returns when to do the next thing.
    fn poll(&mut self, now: Instant) -> Instant;
    /// Makes everything due.
    fn look(&mut self);
    /// Executes an action.
    fn act(&mut self, action: Action) -> Result<(), String>;
}

/// Runs a poller until the senders of its commands are gone.
pub fn run(mut poller: impl Poller, commands: &Receiver<Command>) {
    use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
    loop {
        let next = poller.poll(Instant::now());
        match commands.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(Command::Look) => poller.look(),
            Ok(Command::Act(action, answer)) => {
                let result = poller.act(action);
                // The page may have gone meanwhile.
                let _ = answer.send(result);
            }
            Err(Timeout) => {}
            Err(Disconnected) => return,
        }
    }
}

/// Returns milliseconds since 1970.
fn wall_clock_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
