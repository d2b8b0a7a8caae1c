//! Failures of commands, requests and the connection, and breaches of the protocol by the target.

use std::time::Duration;

use crate::scsi::Sense;
use crate::wire::{ReceivedResponse, Residual};

const GOOD: u8 = 0x00;
const CONDITION_MET: u8 = 0x04;
const BUSY: u8 = 0x08;
const RESERVATION_CONFLICT: u8 = 0x18;
const TASK_SET_FULL: u8 = 0x28;
const TASK_ABORTED: u8 = 0x40;
/// Sense keys: unit attention, aborted command.
const UNIT_ATTENTION: u8 = 0x6;
const ABORTED_COMMAND: u8 = 0xb;

/// End of a command that did not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CommandFailure {
    /// CHECK CONDITION with sense data.
    #[error("{0}")]
    Sense(Sense),
    /// Another status, or CHECK CONDITION without sense data.
    #[error("{}", status_text(*.0))]
    Status(u8),
    /// The target could not execute the information unit (SRP response code).
    #[error("response code {0:#04x} of SRP")]
    Code(u8),
    /// Fewer bytes were transferred than the command has.
    #[error("{0} bytes were not transferred")]
    Short(u32),
}

fn status_text(status: u8) -> String {
    match status {
        BUSY => "busy".to_owned(),
        RESERVATION_CONFLICT => "reservation conflict: another initiator has reserved the disk".to_owned(),
        TASK_SET_FULL => "task set full".to_owned(),
        TASK_ABORTED => "aborted by another initiator".to_owned(),
        other => format!("status {other:#04x}"),
    }
}

/// Whether a command is sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retry {
    /// Never.
    No,
    /// At once, some times.
    Soon,
    /// After a while, for longer.
    Busy,
}

impl CommandFailure {
    /// Returns how a command ended.
    ///
    /// # Errors
    /// The failure.
    pub fn of(response: &ReceivedResponse) -> Result<(), CommandFailure> {
        match (response.code, response.status) {
            (Some(code), _) if code != 0 => Err(CommandFailure::Code(code)),
            (_, GOOD | CONDITION_MET) => match response.out {
                Residual::Under(bytes) => Err(CommandFailure::Short(bytes)),
                Residual::None | Residual::Over(_) => Ok(()),
            },
            (_, status) => Err(response.sense.map_or(CommandFailure::Status(status), CommandFailure::Sense)),
        }
    }

    /// Returns whether the command is worth another try.
    pub fn retry(self) -> Retry {
        match self {
            CommandFailure::Sense(Sense::BECOMING_READY) => Retry::Busy,
            CommandFailure::Sense(Sense { key: UNIT_ATTENTION | ABORTED_COMMAND, .. }) => Retry::Soon,
            CommandFailure::Status(TASK_ABORTED) => Retry::Soon,
            CommandFailure::Status(BUSY | TASK_SET_FULL) => Retry::Busy,
            _ => Retry::No,
        }
    }
}

/// End of a request that did not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestFailure {
    /// A command failed.
    #[error("{0}")]
    Command(#[from] CommandFailure),
    /// There is no such disk, or it is another one after a login.
    #[error("the disk has gone, or is another one now")]
    NoDisk,
    /// The blocks are not the disk's.
    #[error("beyond the end of the disk")]
    OutOfRange,
    /// Begin or length are no multiples of a block.
    #[error("not whole blocks")]
    Unaligned,
    /// The disk is read-only.
    #[error("the disk is read-only")]
    ReadOnly,
    /// The disk does not execute such a command.
    #[error("not supported by the disk")]
    NotSupported,
    /// The command was sent too often in vain.
    #[error("the connection was lost, or the command aborted, each time that it was sent")]
    Lost,
    /// There is no connection for too long.
    #[error("no connection to the target")]
    NoConnection,
    /// The initiator has ended.
    #[error("the initiator has ended")]
    Ended,
}

/// Reason why the connection ended, or the initiator.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LostReason {
    /// The connection could not be made, or broke.
    #[error("{0}")]
    Connection(String),
    /// The target logged this initiator out.
    #[error("the target ended the session ({})", logout_text(*.0))]
    Logout(u32),
    /// A step of the setup failed.
    #[error("{0}: {1}")]
    Setup(&'static str, CommandFailure),
    /// The target cannot be used.
    #[error("{0}")]
    Unusable(&'static str),
    /// A command, or a step of the setup, took too long, and could not be aborted.
    #[error("{0} took longer than {seconds} s", seconds = .1.as_secs())]
    Timeout(&'static str, Duration),
    /// There was no connection for too long.
    #[error("no connection for {seconds} s (dev_loss_tmo); the last reason: {1}", seconds = .0.as_secs())]
    DeviceLoss(Duration, String),
    /// The target broke the protocol.
    #[error("the target broke the protocol: {0}")]
    Breach(#[from] Breach),
    /// The owner logged out.
    #[error("logged out")]
    Shutdown,
}

fn logout_text(reason: u32) -> &'static str {
    match reason {
        1 => "the initiator is inactive for too long",
        2 => "it does not know the type of an information unit",
        3 => "a response without a request",
        4 => "the same initiator logged in again",
        6 => "the target has no room",
        7 => "the data buffer descriptors' format is not supported",
        8 => "the length of an information unit",
        _ => "no reason given",
    }
}

/// Breach of the protocol by the target. The initiator ends for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Breach {
    /// An information unit is too short for its type.
    #[error("an information unit is shorter than its type")]
    Length,
    /// An information unit of an unknown type.
    #[error("an information unit of an unknown type")]
    Type,
    /// The acceptance of the connection is no SRP_LOGIN_RSP.
    #[error("it accepted the connection without a login response")]
    Login,
    /// A response to no command in progress.
    #[error("it answered command {0:#x}, which is not in progress")]
    UnknownCommand(u64),
    /// A response to a command that has not been sent.
    #[error("it answered command {0:#x}, which was not sent yet")]
    NotSent(u64),
    /// It invalidated a key that the command did not lend.
    #[error("it invalidated key {0:#010x}, which the command did not lend")]
    WrongKey(u32),
}

/// Returns the words for the reason of a refused login.
pub fn login_refusal(code: u32) -> String {
    let text = match code {
        0x0001_0000 => "it gives no reason",
        0x0001_0001 => "it has no room, or its port is disabled",
        0x0001_0002 => "it does not take information units of the length asked for",
        0x0001_0003 => {
            "it is not the target that id_ext and ioc_guid name, or does not allow this initiator; the target prints both"
        }
        0x0001_0004 => "it does not take direct data buffer descriptors",
        0x0001_0005 => "it does not know the multi-channel action",
        0x0001_0006 => {
            "this initiator has too many channels; Linux's target says so, too, if it has no ACL for the initiator"
        }
        _ => return format!("reason {code:#010x}"),
    };
    format!("{text} (reason {code:#010x})")
}
