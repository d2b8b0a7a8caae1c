//! Target port: all channels and their requests. Received information units and ended work go in, [`Action`]s come out.
//!
//! An initiator is known by its port identifier; its channels together are an I_T nexus, which has the unit attention
//! conditions. Operations that run when their channel ends go on: they are *stale*, and hold the operations of the same
//! initiator's later channels back, so that an old write never lands on a newer one.

mod action;
mod channel;
mod commands;
mod config;
mod login;
mod tasks;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use action::{Action, ChannelEvent, ChannelKey, CloseReason, CommandKey, DataMove, Response, ResponseData};
pub use config::TargetConfig;
pub use login::{LoginAnswer, LoginError, Refusal};

use crate::limits::{CHANNELS_PER_INITIATOR_MAX, REQUEST_LIMIT, RESPONSES_MAX, TARGET_IU_MAX};
use crate::scsi::{Attentions, Device, Fault, Sense};
use crate::wire::{
    CreditRequest, InitiatorIu, IuError, LoginAccept, LoginCarrier, LogoutReason, MultiChannel, MultiChannelResult,
    PortId, ResponseIu, TargetLogout,
};
use channel::{Channel, PendingTask, Progress, Request};

/// Target port.
#[derive(Debug)]
pub struct Target {
    config: TargetConfig,
    device: Device,
    channels: BTreeMap<ChannelKey, Channel>,
    nexuses: BTreeMap<PortId, Nexus>,
    /// Running operations whose channels have ended, with their initiators.
    stale: BTreeMap<CommandKey, PortId>,
    /// Task management functions that wait for commands.
    tasks: Vec<PendingTask>,
    actions: VecDeque<Action>,
}

/// An initiator that has channels.
#[derive(Debug, Default)]
struct Nexus {
    channels: BTreeSet<ChannelKey>,
    attentions: Attentions,
}

impl Target {
    /// Creates a target without channels.
    pub fn new(config: TargetConfig) -> Target {
        Target {
            device: Device::new(config.identity.clone(), config.units.clone()),
            config,
            channels: BTreeMap::new(),
            nexuses: BTreeMap::new(),
            stale: BTreeMap::new(),
            tasks: Vec::new(),
            actions: VecDeque::new(),
        }
    }

    /// Takes the private data of a connection request, and makes it a channel. The owner accepts it, or calls
    /// [`Target::channel_closed`].
    ///
    /// # Errors
    /// The refusal.
    pub fn login(
        &mut self,
        channel: ChannelKey,
        carrier: LoginCarrier,
        private_data: &[u8],
    ) -> Result<LoginAnswer, LoginError> {
        let no_login = LoginError { tag: [0; 8], refusal: Refusal::NoLogin };
        let request = carrier.parse(private_data).ok_or(no_login)?;
        let refused = |refusal| LoginError { tag: request.tag, refusal };
        let action = login::check(&self.config, &request).map_err(refused)?;
        let initiator = request.initiator;
        let others: Vec<_> =
            self.nexuses.get(&initiator).into_iter().flat_map(|nexus| nexus.channels.iter().copied()).collect();
        let multi_channel = match action {
            _ if others.is_empty() => MultiChannelResult::None,
            MultiChannel::Terminate => MultiChannelResult::Terminated,
            MultiChannel::Maintain if others.len() >= CHANNELS_PER_INITIATOR_MAX => {
                return Err(refused(Refusal::Channels(initiator)));
            }
            MultiChannel::Maintain => MultiChannelResult::Maintained,
        };
        if multi_channel == MultiChannelResult::Terminated {
            for other in others {
                self.close(other, LogoutReason::MultiChannel, CloseReason::NewLogin);
                self.channel_closed(other);
            }
        }
        let luns = self.device.luns();
        let nexus = self.nexuses.entry(initiator).or_insert_with(|| {
            let mut attentions = Attentions::default();
            luns.for_each(|lun| attentions.establish(lun, Sense::POWER_ON));
            Nexus { channels: BTreeSet::new(), attentions }
        });
        nexus.channels.insert(channel);
        let immediate_at = login::immediate_at(&request);
        self.channels.insert(channel, Channel::new(initiator, immediate_at));
        let accept = LoginAccept {
            tag: request.tag,
            request_limit: REQUEST_LIMIT,
            initiator_iu_len: request.iu_len,
            target_iu_len: TARGET_IU_MAX,
            multi_channel,
            immediate: immediate_at.is_some(),
        };
        let receives = REQUEST_LIMIT + RESPONSES_MAX;
        Ok(LoginAnswer { initiator, receives, receive_bytes: request.iu_len, accept })
    }

    /// Handles a received information unit.
    pub fn handle_iu(&mut self, key: ChannelKey, bytes: &[u8]) {
        let Some(channel) = self.channels.get_mut(&key).filter(|channel| !channel.is_ending) else { return };
        match InitiatorIu::parse(bytes, channel.immediate_at) {
            Ok(InitiatorIu::Command(iu)) => self.command(key, iu),
            Ok(InitiatorIu::Task(iu)) => self.task(key, &iu),
            Ok(InitiatorIu::Logout) => self.close_quietly(key, CloseReason::Logout),
            Ok(InitiatorIu::CreditResponse) if channel.credit_response() => self.request_credit(key),
            Ok(InitiatorIu::CreditResponse | InitiatorIu::EventResponse) => {
                self.close(key, LogoutReason::Response, CloseReason::Response);
            }
            Err(IuError::Length) => self.close(key, LogoutReason::Length, CloseReason::Length),
            Err(IuError::Type) => self.close(key, LogoutReason::Type, CloseReason::Type),
            Err(IuError::Format) => self.close(key, LogoutReason::Unspecified, CloseReason::Format),
        }
    }

    /// Handles data that an [`Action::Fetch`] asked for.
    pub fn handle_data(&mut self, key: CommandKey, bytes: &[u8]) {
        let Some(request) = self.request(key) else { return };
        match request.progress {
            _ if request.abort.is_some() => self.finish(key, ResponseIu::Aborted, ResponseData::None),
            Progress::Table => self.table(key, bytes),
            Progress::Parameters => self.parameters(key, bytes),
            _ => {}
        }
    }

    /// Begins an operation that has its data. Returns `false` if its command was aborted or is gone: the owner drops it.
    #[must_use]
    pub fn start(&mut self, key: CommandKey) -> bool {
        let Some(request) = self.request(key) else { return false };
        if request.abort.is_some() {
            self.finish(key, ResponseIu::Aborted, ResponseData::None);
            return false;
        }
        request.progress = Progress::Running;
        true
    }

    /// Handles the end of an operation that began, even if its channel has ended meanwhile.
    pub fn handle_executed(&mut self, key: CommandKey, done: Result<(), Fault>) {
        if let Some(initiator) = self.stale.remove(&key) {
            self.settle(key);
            self.release_held(initiator);
        } else {
            self.executed(key, done);
        }
    }

    /// Forgets a channel whose connection has ended.
    pub fn channel_closed(&mut self, key: ChannelKey) {
        let Some(channel) = self.channels.remove(&key) else { return };
        if let Some(nexus) = self.nexuses.get_mut(&channel.initiator) {
            nexus.channels.remove(&key);
            if nexus.channels.is_empty() {
                self.nexuses.remove(&channel.initiator);
            }
        }
        self.tasks.retain(|task| task.request.channel != key);
        for (sequence, request) in channel.open {
            let command = CommandKey { channel: key, sequence };
            match request.progress {
                Progress::Running => drop(self.stale.insert(command, channel.initiator)),
                _ => self.settle(command),
            }
        }
    }

    /// Returns the next action.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn request(&mut self, key: CommandKey) -> Option<&mut Request> {
        self.channels.get_mut(&key.channel)?.open.get_mut(&key.sequence)
    }

    /// Takes a request, or ends the channel of an initiator with too many.
    fn begin_request(&mut self, key: ChannelKey, request: Request) -> Option<CommandKey> {
        let begun = self.channels.get_mut(&key)?.begin(key, request);
        if begun.is_none() {
            self.close(key, LogoutReason::Unspecified, CloseReason::Overrun);
        }
        begun
    }

    /// Lets an initiator's operations begin that waited for stale ones.
    fn release_held(&mut self, initiator: PortId) {
        if self.stale.values().any(|stale| *stale == initiator) {
            return;
        }
        let mut held = Vec::new();
        for (key, channel) in self.channels.iter().filter(|(_, channel)| channel.initiator == initiator) {
            let waits = channel.open.iter().filter(|(_, request)| matches!(request.progress, Progress::Held(..)));
            held.extend(waits.map(|(sequence, _)| CommandKey { channel: *key, sequence: *sequence }));
        }
        held.into_iter().for_each(|key| self.release(key));
    }

    /// Lets the initiator's limit grow where no response will do it.
    fn request_credit(&mut self, key: ChannelKey) {
        if let Some(limit_delta) = self.channels.get_mut(&key).and_then(Channel::credit_request) {
            self.actions.push_back(Action::Send(key, CreditRequest { limit_delta }.to_bytes().to_vec()));
        }
    }

    /// Ends a channel with a logout.
    fn close(&mut self, key: ChannelKey, logout: LogoutReason, reason: CloseReason) {
        self.actions.push_back(Action::Send(key, TargetLogout { reason: logout }.to_bytes().to_vec()));
        self.close_quietly(key, reason);
    }

    fn close_quietly(&mut self, key: ChannelKey, reason: CloseReason) {
        if let Some(channel) = self.channels.get_mut(&key) {
            channel.is_ending = true;
        }
        self.actions.push_back(Action::Close(key, reason));
    }
}
